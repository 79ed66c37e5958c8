"""A younger worker yields while an older one that was activated for the same seat is reconciled."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from simulation.apiserver.kinds import PODS
from simulation.chaos.scripted import Delay, Faults
from simulation.cluster.controller_process import SimulatedProcess, simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


async def test_a_yielding_worker_does_not_spin_until_the_older_one_is_done() -> None:
    faults = Faults()
    async with SimulatedCluster() as cluster:
        cluster.fleet.add_nodes(1)
        async with simulated_controller(cluster, interceptor=faults) as process:
            # The older worker has its own claim, and creating its Pod takes long. Meanwhile another claim is
            # allocated: the older worker is activated for a seat there and not reconciled yet.
            faults.add(Delay(before_seconds=5), verb="create", kind=PODS)
            cluster.workloads.submit(workload("older"))
            await anyio.sleep(0.1)
            cluster.workloads.submit(workload("second"))
            await anyio.sleep(1)
            cluster.workloads.submit(workload("younger"))
            await turns()
            before = reconciles(process)
            await turns()

            assert reconciles(process) - before < 10
            await cluster.settle()
            assert len(cluster.workloads.in_phase("Running")) == 3


async def turns() -> None:
    """Run everything that is ready, without any time passing."""
    for _ in range(2_000):
        await checkpoint()


def reconciles(process: SimulatedProcess) -> int:
    return sum(process.controller.runner.statistics().reconciles_total.values())
