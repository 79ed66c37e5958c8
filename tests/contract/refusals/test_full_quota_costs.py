"""more Workloads than a ResourceQuota lets be Pods."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from informers.errors import Forbidden
from simulation.apiserver.kinds import PODS
from simulation.chaos.scripted import Faults, Refuse
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import reconciles, round_trip_seconds, submit

pytestmark = pytest.mark.anyio


async def looks_in_the_first_minute(waiting: int) -> int:
    faults = Faults()
    async with (
        SimulatedCluster() as cluster,
        simulated_controller(
            cluster,
            Settings(leader_elect=False),
            interceptor=faults,
            latency_seconds=round_trip_seconds,
        ) as process,
    ):
        cluster.fleet.add_nodes(1, NodeShape(host_memory="4Ti", cpu="2000", pods=1000))
        await submit(cluster, "creator")
        faults.add(Refuse(lambda: Forbidden("exceeded quota: pods")), verb="create", kind=PODS, times=None)
        before = reconciles(process)
        for number in range(waiting):
            cluster.workloads.submit(workload(f"worker-{number:03}"))
        await anyio.sleep(60)
        return reconciles(process) - before


async def test_twice_as_many_that_wait_for_quota_are_about_twice_the_work() -> None:
    """A full quota is everyday life: what it costs grows with the number of those that wait, not faster."""
    few, many = await looks_in_the_first_minute(10), await looks_in_the_first_minute(20)
    assert many <= 2.5 * few
