"""The DeviceClass is deleted while a worker waits with a claim of its own."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import row, submit

pytestmark = pytest.mark.anyio


async def test_a_waiting_worker_names_the_missing_device_class(cluster: SimulatedCluster) -> None:
    """Whoever waits says that the DeviceClass is missing, within some minutes: not "no free device", since
    a device is free."""
    settings = Settings(leader_elect=False, placement_timeout_seconds=0.0)
    async with simulated_controller(cluster, settings):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "holder", "worker", shared=False)
        cluster.fleet.remove_device_class()
        cluster.workloads.delete("holder")
        await anyio.sleep(600)
        assert row(cluster, "worker")[3].startswith("InvalidConfiguration")
