"""Lost Pods: they are counted, back off, and leave the place where they were lost."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from informers.api import ObjectKey
from simulation.actors.base import Delays, condition
from simulation.apiserver.documents import Document, format_time
from simulation.apiserver.kinds import PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import claim_of, count_calls, delete_pod, row, settings_with, submit

pytestmark = pytest.mark.anyio

FOREVER = settings_with(placement_timeout_seconds=0.0)
XID = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}
NAMES = ("first", "second", "third")


def restarts(cluster: SimulatedCluster, name: str) -> int:
    return int(cluster.workloads.status(name).get("restarts", 0))


def message(cluster: SimulatedCluster, name: str) -> str:
    (placed,) = (c for c in cluster.workloads.status(name)["conditions"] if c["type"] == "Placed")
    return str(placed["message"])


def disrupt(cluster: SimulatedCluster, name: str, reason: str) -> None:
    """Delete a Pod as Kubernetes does: the condition first."""

    def mark(document: Document) -> None:
        status = document["status"]
        now = format_time(cluster.clock())
        status["conditions"] = condition(status, "DisruptionTarget", "True", timestamp=now, reason=reason)

    key = cluster.workloads.pod_key(name)
    cluster.server.edit(PODS, key, mark, subresource="status")
    cluster.server.delete(PODS, key.name, key.namespace)


async def test_workers_leave_a_shared_device_that_evicts_them() -> None:
    delays = Delays(pod_stop_seconds=5.0, pod_start_seconds=1.0, spread=0.5, claim_release_seconds=0.001)
    async with (
        SimulatedCluster(seed=1, delays=delays) as cluster,
        simulated_controller(cluster, FOREVER),
    ):
        cluster.fleet.add_nodes(1)
        await submit(cluster, *NAMES)
        assert len({claim_of(cluster, name) for name in NAMES}) == 1
        cluster.fleet.add_node("healthy")
        await cluster.settle()
        cluster.fleet.taint_devices("gpu-node-0", XID)
        await anyio.sleep(600)
        for name in NAMES:
            assert row(cluster, name)[0] == "Running"
            assert cluster.workloads.status(name)["nodeName"] == "healthy"
            assert 1 <= restarts(cluster, name) <= 3


async def test_a_lost_pod_is_counted_once_with_its_reason(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "worker")
        disrupt(cluster, "worker", "EvictionByEvictionAPI")
        await cluster.wait_until(lambda: restarts(cluster, "worker") == 1, "the loss is not reported")
        assert "EvictionByEvictionAPI" in message(cluster, "worker")
        await cluster.settle()
        assert row(cluster, "worker") == ("Running", "True", "Placed", "")
        assert restarts(cluster, "worker") == 1
        delete_pod(cluster, "worker")
        await anyio.sleep(10)
        assert restarts(cluster, "worker") == 2


async def test_a_pod_that_never_ran_is_no_restart(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.kubelet.hold(cluster.workloads.pod_key("worker"))
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "worker")
        delete_pod(cluster, "worker")
        await anyio.sleep(10)
        assert restarts(cluster, "worker") == 0


async def test_a_loss_that_no_controller_watched_is_counted(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "worker")
    delete_pod(cluster, "worker")
    await cluster.settle()
    async with simulated_controller(cluster, FOREVER, identity="next"):
        await anyio.sleep(10)
        assert row(cluster, "worker")[0] == "Running"
        assert restarts(cluster, "worker") == 1


async def test_lost_pods_back_off_and_ten_minutes_of_running_clear_that(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "worker", shared=False)
        since = len(cluster.audit)
        pauses = [await seconds_to_the_next_pod(cluster) for _ in range(6)]
        assert [round(pause) for pause in pauses] == pytest.approx([1, 2, 4, 8, 16, 32], abs=2)
        await anyio.sleep(601)
        assert await seconds_to_the_next_pod(cluster) < 3
        assert count_calls(cluster, "create", PODS, since=since) == 7


async def seconds_to_the_next_pod(cluster: SimulatedCluster) -> float:
    """Delete the Pod, and return the seconds until the next one runs."""
    delete_pod(cluster, "worker")
    deleted = anyio.current_time()
    await cluster.wait_until(
        lambda: row(cluster, "worker")[0] != "Running" or cluster.workloads.pod("worker") is None, "not lost"
    )
    await cluster.wait_until(lambda: is_running(cluster, "worker"), "it does not run again")
    return anyio.current_time() - deleted


def is_running(cluster: SimulatedCluster, name: str) -> bool:
    pod: Any = cluster.workloads.pod(name)
    alive = pod is not None and "deletionTimestamp" not in pod["metadata"]
    return alive and row(cluster, name)[0] == "Running" and pod["status"].get("phase") == "Running"


async def test_a_guest_does_not_return_at_once_to_the_node_that_lost_it(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "owner", "guest")
        shared = claim_of(cluster, "owner")
        cluster.fleet.add_node("another")
        await cluster.settle()
        cluster.server.delete(PODS, "orw-guest", cluster.workloads.pod_key("guest").namespace)
        await anyio.sleep(30)
        assert row(cluster, "guest")[0] == "Running"
        assert claim_of(cluster, "guest") != shared
        assert cluster.workloads.status("guest")["nodeName"] == "another"


async def test_an_evicted_worker_of_an_exclusive_claim_leaves_a_tainted_device(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "lora", shared=False)
        cluster.fleet.add_node("healthy")
        await cluster.settle()
        cluster.fleet.taint_devices("gpu-node-0", XID)
        await anyio.sleep(120)
        assert row(cluster, "lora")[0] == "Running"
        assert cluster.workloads.status("lora")["nodeName"] == "healthy"


async def test_a_finalizer_that_keeps_a_lost_pod_costs_no_second_count(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)

    def keep(document: Document) -> None:
        document["metadata"]["finalizers"] = ["example.com/keep"]

    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "worker")
        key = ObjectKey("openrl-system", "orw-worker")
        cluster.server.edit(PODS, key, keep)
        disrupt(cluster, "worker", "DeletionByTaintManager")
        await anyio.sleep(60)
        assert restarts(cluster, "worker") == 0, "the Pod is not gone yet"
        cluster.server.edit(PODS, key, lambda document: document["metadata"].update(finalizers=[]))
        await anyio.sleep(60)
        assert row(cluster, "worker")[0] == "Running"
        assert restarts(cluster, "worker") == 1
