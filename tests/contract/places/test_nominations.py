"""A refused Pod has a `nominatedNodeName`, which is left over or was written by an autoscaler."""

from __future__ import annotations

import itertools

import anyio
import pytest

from controller.config.flags import Settings
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import claim_of, pod_uid, row, submit

pytestmark = pytest.mark.anyio


async def test_a_seat_that_becomes_free_is_taken_all_the_same(cluster: SimulatedCluster) -> None:
    """An unused nomination delays a worker for some minutes at most.

    The worker gets the free seat well within the time limit. (A nomination that is used within moments may be
    respected.)
    """
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


async def test_an_autoscaler_that_keeps_nominating_holds_nobody(cluster: SimulatedCluster) -> None:
    """Each new name is a hint as well: it does not extend the two minutes."""
    settings = Settings(leader_elect=False, max_seats_per_claim=2)
    async with simulated_controller(cluster, settings), anyio.create_task_group() as tasks:
        cluster.fleet.add_nodes(1)
        await submit(cluster, "creator", "second")
        cluster.workloads.submit(workload("late"))
        await anyio.sleep(20)
        first = pod_uid(cluster, "late")

        async def nominate() -> None:
            for number in itertools.count():
                name = f"node-to-come-{number}"
                if pod_uid(cluster, "late") == first:
                    patch = {"status": {"nominatedNodeName": name}}
                    cluster.server.patch(PODS, "orw-late", "openrl-system", patch, subresource="status")
                await anyio.sleep(30)

        tasks.start_soon(nominate)
        await anyio.sleep(60)
        cluster.workloads.delete("second")
        await anyio.sleep(120)
        tasks.cancel_scope.cancel()
    assert claim_of(cluster, "late") == claim_of(cluster, "creator")


async def test_a_nomination_that_is_used_is_respected(cluster: SimulatedCluster) -> None:
    """kube-scheduler nominates before it binds: the worker keeps its Pod although a seat is free."""
    settings = Settings(leader_elect=False, max_seats_per_claim=2)
    async with simulated_controller(cluster, settings):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "creator", "second")
        cluster.workloads.submit(workload("late"))
        await anyio.sleep(20)
        first = pod_uid(cluster, "late")
        cluster.scheduler.pause()
        patch = {"status": {"nominatedNodeName": "gpu-node-1"}}
        cluster.server.patch(PODS, "orw-late", "openrl-system", patch, subresource="status")
        cluster.workloads.delete("second")
        await anyio.sleep(60)
        cluster.fleet.add_node("gpu-node-1")
        cluster.scheduler.resume()
        await anyio.sleep(60)
    assert pod_uid(cluster, "late") == first
    assert row(cluster, "late")[0] == "Running"
