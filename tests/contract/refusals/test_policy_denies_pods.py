"""a policy denies the worker's Pod with 422."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from informers.errors import Invalid
from simulation.apiserver.kinds import PODS
from simulation.chaos.scripted import Faults, Refuse
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import row

pytestmark = pytest.mark.anyio

WORDS = "ValidatingAdmissionPolicy 'approval' with binding 'approval' denied request: not approved yet"


async def test_a_denied_worker_waits_and_starts_once_the_policy_lets_it(cluster: SimulatedCluster) -> None:
    """A refusal by admission is one for now, whatever its HTTP code: the worker waits, says PodRejected
    with the policy's words, and starts some minutes after the policy is gone at the latest."""
    faults = Faults()
    faults.add(Refuse(lambda: Invalid(WORDS)), verb="create", kind=PODS, times=None)
    async with simulated_controller(cluster, Settings(leader_elect=False), interceptor=faults):
        cluster.fleet.add_nodes(1)
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        phase, _, _, reason = row(cluster, "worker")
        assert (phase, reason.partition(":")[0]) == ("Pending", "PodRejected")
        assert "not approved yet" in reason
        faults.clear()
        await anyio.sleep(330)
        assert row(cluster, "worker")[0] == "Running"
