"""Contract §5.11: the reported status, without writes when nothing changed."""

from __future__ import annotations

import anyio
import pytest

from simulation.apiserver.kinds import WORKLOADS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import LIMIT_OF_TWO, claim_of, delete_pod, row, settings_with, submit, writes_of

pytestmark = pytest.mark.anyio

OFTEN = settings_with(retry_interval_seconds=10.0, placement_timeout_seconds=0.0)


async def test_nothing_is_written_when_nothing_changed(cluster: SimulatedCluster) -> None:
    """Every waiting worker is reconciled each ten seconds for an hour."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, OFTEN.model_copy(update={"max_seats_per_claim": 2})):
        await submit(cluster, "first", "second", "third", "fourth")
        cluster.workloads.submit(workload("too-big", memory="200Gi"))
        await cluster.settle()
        await anyio.sleep(30)
        mark, revision = len(cluster.audit), workload_writes(cluster)
        await anyio.sleep(3600)
        assert writes_of(cluster, mark) == []
        assert workload_writes(cluster) == revision


def workload_writes(cluster: SimulatedCluster) -> int:
    return len(cluster.server.history(WORKLOADS))


async def test_a_hand_off_rewrites_no_other_waiting_status(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submit(cluster, "first", "second", "third", "fourth", "fifth")
        before = len(cluster.server.history(WORKLOADS))
        cluster.workloads.delete("first")
        await cluster.settle()
        touched = {c.record.key.name for c in cluster.server.history(WORKLOADS)[before:]}
    assert touched == {"first", "third"}


async def test_names_and_counts_are_written_only_with_a_due_write(cluster: SimulatedCluster) -> None:
    """`nodeName` is known shortly before the Pod runs, but causes no write of its own."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        assert writes_of(cluster).count("patch workloads/status") == 2, "Placing, then Running"
    status = cluster.workloads.status("worker")
    assert (status["podName"], status["nodeName"], status["deviceCount"]) == ("orw-worker", "gpu-node-0", 1)


async def test_a_worker_that_waits_again_is_on_no_node(cluster: SimulatedCluster) -> None:
    """Its node was drained: kube-scheduler refuses the Pod, and the claim lost its allocation."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, OFTEN):
        await submit(cluster, "worker")
        cluster.fleet.cordon("gpu-node-0")
        delete_pod(cluster, "worker")
        await cluster.wait_until(lambda: row(cluster, "worker")[0] == "Pending", "does not wait")
        await cluster.settle()
        status = cluster.workloads.status("worker")
        assert (status["claimName"], status["podName"]) == (claim_of(cluster, "worker"), "orw-worker")
        assert (status.get("nodeName"), status.get("deviceCount")) == (None, None)


async def test_a_pod_that_does_not_start_is_reported_after_ten_seconds(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        cluster.kubelet.hold(cluster.workloads.pod_key("worker"), "ImagePullBackOff")
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(9)
        assert row(cluster, "worker")[0] == "Placing"
        assert row(cluster, "worker")[3].startswith("CreatedClaim: ")
        await anyio.sleep(2.5)
        text = "ContainerWaiting: ImagePullBackOff"
        assert row(cluster, "worker") == ("Placing", "False", "NotStarted", text)
        assert cluster.workloads.status("worker")["nodeName"] == "gpu-node-0"
        cluster.kubelet.release(cluster.workloads.pod_key("worker"))
        await cluster.wait_until(lambda: row(cluster, "worker")[0] == "Running", "does not run")
        assert row(cluster, "worker") == ("Running", "True", "Placed", "")


async def test_a_pod_that_starts_in_time_is_never_reported_as_not_started(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        cluster.kubelet.hold(cluster.workloads.pod_key("worker"))
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(5)
        cluster.kubelet.release(cluster.workloads.pod_key("worker"))
        await cluster.settle()
    reasons = [
        (c.record.document.get("status") or {}).get("reason") for c in cluster.server.history(WORKLOADS)
    ]
    assert not any("ContainerWaiting" in (reason or "") for reason in reasons)


async def test_the_transition_time_moves_only_with_the_conditions_status(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "holder", "lora", shared=False)
        (before,) = cluster.workloads.status("lora")["conditions"]
        cluster.fleet.remove_device_class()
        cluster.fleet.cordon("gpu-node-0")
        await cluster.settle()
        (after,) = cluster.workloads.status("lora")["conditions"]
        assert after["status"] == before["status"] == "False"
        assert after["lastTransitionTime"] == before["lastTransitionTime"]


async def test_conditions_of_others_are_kept(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    theirs = {
        "type": "Theirs",
        "status": "True",
        "reason": "Theirs",
        "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    cluster.workloads.submit(workload("worker"))
    cluster.server.patch(
        WORKLOADS, "worker", "openrl-system", {"status": {"conditions": [theirs]}}, subresource="status"
    )
    async with simulated_controller(cluster):
        await cluster.settle()
    assert [c["type"] for c in cluster.workloads.status("worker")["conditions"]] == ["Theirs", "Placed"]
