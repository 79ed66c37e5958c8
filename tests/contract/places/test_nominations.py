"""REF-5: a refused Pod carries a nominatedNodeName, left over or written by an autoscaler."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import row, submit

pytestmark = pytest.mark.anyio


async def test_a_seat_that_becomes_free_is_taken_all_the_same(cluster: SimulatedCluster) -> None:
    """A nomination that leads to nothing delays a worker for some minutes at most: it gets the free seat
    well within the time limit. (A nomination that is used within moments may be respected.)"""
    settings = Settings(leader_elect=False, max_seats_per_claim=2)
    async with simulated_controller(cluster, settings):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "creator", "second")
        cluster.workloads.submit(workload("late"))
        await anyio.sleep(20)
        assert row(cluster, "late")[:3] == ("Pending", "False", "Unschedulable")
        cluster.scheduler.pause()  # nothing but the stale nomination is left of it

        def nominate(document: Document) -> None:
            document["status"]["nominatedNodeName"] = "gpu-node-0"

        cluster.server.edit(PODS, cluster.workloads.pod_key("late"), nominate, subresource="status")
        cluster.workloads.delete("second")
        await anyio.sleep(600)
        assert list(map(sorted, cluster.workloads.seats().values())) == [["creator", "late"]]
