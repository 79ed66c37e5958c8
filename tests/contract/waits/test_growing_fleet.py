"""A worker of two devices waits while eight shapes are taken; a node of a ninth, larger one comes."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import row, submit

pytestmark = pytest.mark.anyio

SIZES = (24, 32, 40, 48, 64, 72, 80, 90)


async def test_what_waits_keeps_up_with_a_fleet_that_grows(cluster: SimulatedCluster) -> None:
    """A worker gets a free node that fits although it began to wait before that kind of node was there."""
    settings = Settings(leader_elect=False, placement_timeout_seconds=0.0)
    async with simulated_controller(cluster, settings):
        cluster.fleet.ensure_device_class()
        for size in SIZES:
            cluster.fleet.add_node(f"node-{size}", NodeShape(gpus=2, gpu_memory=f"{size}Gi"))
        await submit(cluster, *(f"holder-{size}" for size in SIZES), shared=False, devices=2)
        assert len(cluster.workloads.in_phase("Running")) == len(SIZES)
        cluster.workloads.submit(workload("worker", shared=False, devices=2))
        await cluster.settle()
        cluster.fleet.add_node("node-96", NodeShape(gpus=2, gpu_memory="96Gi"))
        await anyio.sleep(900)
        assert row(cluster, "worker")[0] == "Running"
