"""The pool of GPU nodes is at zero: a DeviceClass, and no node and no device yet."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload

pytestmark = pytest.mark.anyio


async def test_an_autoscaler_sees_a_pending_pod_with_a_claim(cluster: SimulatedCluster) -> None:
    """Autoscalers act on a Pod that is pending and on its claim, as docs/design.md says: within a minute
    there are both."""
    async with simulated_controller(cluster, Settings(leader_elect=False)):
        cluster.fleet.ensure_device_class()
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        assert cluster.workloads.pod("worker") is not None
        assert len(cluster.workloads.claims()) == 1
