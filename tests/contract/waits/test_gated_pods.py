"""A Pod that no scheduler judges: the status gives the reason, and no seat of others is used."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from simulation.apiserver.interception import Apply, Request
from simulation.apiserver.kinds import PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import claim_of, row, set_unschedulable, submit

pytestmark = pytest.mark.anyio


async def test_the_status_says_that_the_pod_is_gated(cluster: SimulatedCluster) -> None:

    async def webhook(request: Request, apply: Apply) -> bytes:
        if (
            request.kind is PODS
            and request.verb == "create"
            and request.body["metadata"]["name"] == "orw-late"
        ):
            request.body["spec"]["schedulingGates"] = [{"name": "queue.example.com/admission"}]
        return apply()

    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, Settings(leader_elect=False), interceptor=webhook):
        await submit(cluster, "creator")
        cluster.scheduler.pause()
        cluster.workloads.submit(workload("late"))
        await anyio.sleep(5)
        set_unschedulable(
            cluster, "late", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
        )
        await anyio.sleep(120)
        assert "gate" in row(cluster, "late")[3].lower()
        assert claim_of(cluster, "late") != claim_of(cluster, "creator"), "it uses no seat of others"


async def test_the_status_names_an_absent_scheduler(cluster: SimulatedCluster) -> None:
    async def webhook(request: Request, apply: Apply) -> bytes:
        if request.kind is PODS and request.verb == "create":
            request.body["spec"]["schedulerName"] = "nobody"
        return apply()

    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, Settings(leader_elect=False), interceptor=webhook):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        words = "WaitingForScheduler: no scheduler has looked at Pod orw-worker (schedulerName nobody)"
        assert row(cluster, "worker") == ("Pending", "False", "WaitingForScheduler", words)
