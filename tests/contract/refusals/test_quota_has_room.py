"""a worker that a full ResourceQuota has kept out for long, and then a place becomes free."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from informers.errors import Forbidden
from simulation.apiserver.kinds import PODS
from simulation.chaos.scripted import Faults, Refuse
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import row, submit

pytestmark = pytest.mark.anyio


async def test_it_starts_soon_after_another_pod_of_the_namespace_has_ended(cluster: SimulatedCluster) -> None:
    """What ends the refusal ends the wait: it starts within a minute, not at the end of its back-off."""
    faults = Faults()

    def full(_request: object) -> bool:
        phases = [pod["status"].get("phase") for pod in cluster.workloads.pods()]
        return sum(phase not in {"Succeeded", "Failed"} for phase in phases) >= 1

    faults.add(
        Refuse(lambda: Forbidden("exceeded quota: pods")), verb="create", kind=PODS, times=None, when=full
    )
    async with simulated_controller(cluster, Settings(leader_elect=False), interceptor=faults):
        cluster.fleet.add_nodes(2)
        await submit(cluster, "job", shared=False)
        cluster.workloads.submit(workload("worker", shared=False))
        await anyio.sleep(270)
        assert row(cluster, "worker")[3].startswith("PodRejected")
        cluster.kubelet.succeed(cluster.workloads.pod_key("job"))
        await anyio.sleep(60)
        assert row(cluster, "worker")[0] == "Running"
