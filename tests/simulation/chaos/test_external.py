"""External actors restore only the Workloads that users still expect."""

from __future__ import annotations

import anyio
import pytest

from informers.api import ObjectKey
from simulation.apiserver.kinds import WORKLOADS
from simulation.chaos.external import ExternalActors
from simulation.chaos.scenario import UserAction
from simulation.checks.invariants import InvariantChecker
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from simulation.engine.trace import Trace

pytestmark = pytest.mark.anyio


async def test_a_workload_deleted_while_its_namespace_terminates_is_not_restored(
    cluster: SimulatedCluster,
) -> None:
    """One Workload is still terminating, and the other is already gone."""
    external = ExternalActors(cluster, InvariantChecker(cluster), Trace(anyio.current_time))
    held = workload("held")
    held["metadata"]["finalizers"] = ["example.com/other"]
    for body in (held, workload("gone"), workload("wanted")):
        external.run(UserAction(0.0, "submit", body["metadata"]["name"], body))

    assert external.delete_namespace()
    await cluster.settle()
    assert set(cluster.workloads.statuses()) == {"held"}
    for name in ("held", "gone"):
        external.run(UserAction(0.0, "delete", name))
    server, key = cluster.server, ObjectKey(cluster.workloads.namespace, "held")
    server.edit(WORKLOADS, key, lambda document: document["metadata"].pop("finalizers"))
    await cluster.settle()

    assert external.restore_namespace()
    assert set(external.expected) == set(cluster.workloads.statuses()) == {"wanted"}
