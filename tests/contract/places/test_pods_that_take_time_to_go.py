"""A webhook adds a finalizer to every Pod. It is removed some time after the Pod's deletion."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from informers.api import ObjectKey
from simulation.apiserver.documents import Document
from simulation.apiserver.interception import Apply, Request
from simulation.apiserver.kinds import PODS
from simulation.apiserver.refusals import Refusal
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import claim_of, delete_pod, row, submit

pytestmark = pytest.mark.anyio


async def webhook(request: Request, apply: Apply) -> bytes:
    if request.kind is PODS and request.verb == "create":
        request.body["metadata"]["finalizers"] = ["billing.example.com/final"]
    return apply()


async def let_go(cluster: SimulatedCluster) -> None:
    def change(document: Document) -> None:
        document["metadata"]["finalizers"] = []

    while True:
        await anyio.sleep(1)
        for pod in cluster.workloads.pods():
            meta = pod["metadata"]
            if "deletionTimestamp" in meta and meta.get("finalizers"):
                try:
                    cluster.server.edit(PODS, ObjectKey(meta["namespace"], meta["name"]), change)
                except Refusal:
                    continue


async def test_a_worker_leaves_a_claim_that_refuses_it(cluster: SimulatedCluster) -> None:
    """The decision to leave a claim holds even if the Pod is deleted slowly.

    The worker runs on a free device elsewhere within ten minutes.
    """
    settings = Settings(leader_elect=False, placement_timeout_seconds=0.0)
    async with (
        simulated_controller(cluster, settings, interceptor=webhook),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(let_go, cluster)
        cluster.fleet.add_nodes(1)
        await submit(cluster, "creator", "worker")
        assert claim_of(cluster, "worker") == claim_of(cluster, "creator")
        cluster.fleet.cordon("gpu-node-0")
        cluster.fleet.add_node("spare")
        delete_pod(cluster, "worker")
        await anyio.sleep(600)
        tasks.cancel_scope.cancel()
    assert row(cluster, "worker")[0] == "Running"
    assert cluster.workloads.status("worker")["nodeName"] == "spare"
