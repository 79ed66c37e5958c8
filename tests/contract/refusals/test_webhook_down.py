"""the webhook that every Pod has to pass is down, so that the API server answers 500."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from informers.errors import ServerError
from simulation.apiserver.kinds import PODS
from simulation.chaos.scripted import Faults, Refuse
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import row

pytestmark = pytest.mark.anyio

WORDS = 'Internal error occurred: failed calling webhook "check.example.com": no endpoints available'


def webhook_down() -> Faults:
    faults = Faults()
    error = lambda: ServerError(WORDS, status=500, reason="InternalError")  # noqa: E731
    faults.add(Refuse(error), verb="create", kind=PODS, times=None)
    return faults


async def test_the_status_says_what_the_server_says(cluster: SimulatedCluster) -> None:
    """After a minute the status says why it does not start."""
    async with simulated_controller(cluster, Settings(leader_elect=False), interceptor=webhook_down()):
        cluster.fleet.add_nodes(1)
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        assert "failed calling webhook" in row(cluster, "worker")[3]


async def test_the_time_limit_is_kept(cluster: SimulatedCluster) -> None:
    """The time limit for placement (15 minutes) holds while the webhook is down."""
    async with simulated_controller(cluster, Settings(leader_elect=False), interceptor=webhook_down()):
        cluster.fleet.add_nodes(1)
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(15 * 60 + 60)
        assert row(cluster, "worker")[0] == "Failed"


async def test_the_worker_starts_soon_after_the_webhook_is_back(cluster: SimulatedCluster) -> None:
    """After twelve minutes of outage no worker waits for another ten, but for five at most."""
    faults = webhook_down()
    settings = Settings(leader_elect=False, placement_timeout_seconds=0.0)
    async with simulated_controller(cluster, settings, interceptor=faults):
        cluster.fleet.add_nodes(1)
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(12 * 60)
        faults.clear()
        await anyio.sleep(310)
        assert row(cluster, "worker")[0] == "Running"
