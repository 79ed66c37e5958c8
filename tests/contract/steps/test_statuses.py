"""Contract §2.1, the table of situations, row by row: phase, condition `Placed`, form of `status.reason`."""

from __future__ import annotations

import re

import anyio
import pytest

from informers.errors import Forbidden, Invalid
from simulation.actors.base import condition
from simulation.apiserver.documents import Document, format_time
from simulation.apiserver.kinds import CLAIMS, PODS, WORKLOADS
from simulation.chaos.scripted import Delay, Faults, Refuse
from simulation.cluster.controller_process import SETTINGS, simulated_controller
from simulation.cluster.nodes import DRIVER, NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    LIMIT_OF_TWO,
    claim_of,
    controller_reference,
    delete_pod,
    edit_seats,
    foreign_seat,
    plain_pod,
    row,
    settings_with,
    submit,
    submit_stuck,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
NO_TIMEOUT = settings_with(placement_timeout_seconds=0.0)
Row = tuple[str, str, str, str]


def rows_of(cluster: SimulatedCluster, name: str) -> list[Row]:
    """Return the distinct successive rows of a worker's status."""
    seen: list[Row] = []
    for change in cluster.server.history(WORKLOADS):
        if change.record.key.name == name:
            status = change.record.document.get("status") or {}
            placed: Document = next((c for c in status.get("conditions") or () if c["type"] == "Placed"), {})
            found = (status.get("phase", ""), placed.get("status", ""), placed.get("reason", ""))
            entry = (*found, status.get("reason", ""))
            if seen[-1:] != [entry]:
                seen.append(entry)
    return seen


async def test_booked_pod_to_come_own_claim(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1, NodeShape(gpu_memory="24Gi"))
    cluster.fleet.add_node("big", NodeShape(gpu_memory="80Gi"))
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    assert ("Placing", "", "", "CreatedClaim: t1x24|t1x80") in rows_of(cluster, "worker")


async def test_booked_pod_to_come_joined_claim(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "creator", "worker")
    assert ("Placing", "", "", f"JoinedClaim: {claim_of(cluster, 'creator')}") in rows_of(cluster, "worker")


async def test_moved_from_its_own_claim_to_a_seat(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submit(cluster, "creator", "second", "worker")
        cluster.workloads.delete("second")
        await cluster.settle()
    text = f"SharedOnUnschedulable: {claim_of(cluster, 'creator')}"
    assert ("Placing", "False", "Unschedulable", text) in rows_of(cluster, "worker")


async def test_pod_bound_and_not_started_for_ten_seconds(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.kubelet.hold(cluster.workloads.pod_key("worker"), "ErrImagePull")
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(12)
    assert row(cluster, "worker") == ("Placing", "False", "NotStarted", "ContainerWaiting: ErrImagePull")


async def test_running(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    assert row(cluster, "worker") == ("Running", "True", "Placed", "")
    assert "reason" not in cluster.workloads.status("worker")


async def test_waiting_cannot_help(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker", memory="200Gi")
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Pending", "False", "Unschedulable")
    assert re.fullmatch(r"NoCapacity: .*80Gi.*", text), "the largest device is named"


@pytest.mark.parametrize("fleet", ["none", "other role", "no devices"])
async def test_no_node_fits(cluster: SimulatedCluster, fleet: str) -> None:
    cluster.fleet.ensure_device_class()
    if fleet == "other role":
        cluster.fleet.add_node("samplers", NodeShape(roles=("sampler",)))
    elif fleet == "no devices":
        cluster.fleet.add_node("empty", NodeShape(gpus=0))
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Pending", "False", "Unschedulable")
    assert text.startswith("NoCapacity: ")
    assert len(cluster.workloads.claims()) == 1, "an autoscaler acts on the pending claim"


async def test_own_claim_created_and_pod_refused(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "holder", "worker", shared=False)
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Pending", "False", "Unschedulable")
    assert text.startswith("WaitingForCapacity: ")
    (placed,) = cluster.workloads.status("worker")["conditions"]
    assert placed["message"].startswith(text)
    assert "kube-scheduler: 0/1 nodes are available" in placed["message"]
    assert not re.search(r"\d+/\d+ nodes", text), "the reason has no wording or counts of kube-scheduler"


async def test_scheduler_error_for_more_than_ten_seconds(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, NO_TIMEOUT):
        cluster.scheduler.pause()
        cluster.workloads.submit(workload("worker"))
        await cluster.wait_until(lambda: cluster.workloads.pod("worker"), "no Pod")

        def change(document: Document) -> None:
            document["status"]["conditions"] = condition(
                document["status"],
                "PodScheduled",
                "False",
                timestamp=format_time(cluster.clock()),
                reason="SchedulerError",
                message="running Filter plugin: no such key: memory",
            )

        cluster.server.edit(PODS, cluster.workloads.pod_key("worker"), change, subresource="status")
        await anyio.sleep(8)
        assert row(cluster, "worker")[0] == "Placing"
        await anyio.sleep(4)
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Pending", "False", "SchedulerError")
    assert text.startswith("SchedulerError: ")
    (placed,) = cluster.workloads.status("worker")["conditions"]
    assert placed["message"] == "running Filter plugin: no such key: memory"


async def test_own_claim_of_a_predecessor_still_ending(cluster: SimulatedCluster) -> None:
    """The reason names the node if there is one."""
    cluster.fleet.add_nodes(1)
    cluster.workloads.submit(workload("worker", exclusive=True))
    worker = cluster.workloads.get("worker")
    assert worker is not None
    name = f"claim-worker-{worker['metadata']['uid'][:8]}"
    body = {
        "metadata": {"name": name, "labels": {"openrl.io/managed": "true"}, "finalizers": ["example.com/x"]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
    }
    cluster.server.create(CLAIMS, NAMESPACE, body)
    field = {"key": "metadata.name", "operator": "In", "values": ["gpu-node-0"]}
    allocation = {
        "devices": {
            "results": [{"request": "gpu", "driver": DRIVER, "pool": "gpu-node-0", "device": "gpu-0"}]
        },
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    cluster.server.patch(
        CLAIMS, name, NAMESPACE, {"status": {"allocation": allocation}}, subresource="status"
    )
    cluster.server.delete(CLAIMS, name, NAMESPACE)
    async with simulated_controller(cluster):
        await cluster.settle()
    text = f"WaitingForPredecessorClaim: {name} is still ending on gpu-node-0"
    assert row(cluster, "worker") == ("Pending", "False", "WaitingForPredecessorClaim", text)


async def test_pod_of_a_predecessor_still_ending(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.garbage_collector.pause()
    cluster.kubelet.pause()
    owner = controller_reference("worker", "uid-before")
    cluster.server.create(PODS, NAMESPACE, plain_pod("orw-worker", owner=owner, node="gpu-node-0"))
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    text = "WaitingForPredecessorPod: orw-worker is still ending on gpu-node-0"
    assert row(cluster, "worker") == ("Pending", "False", "WaitingForPredecessorPod", text)


async def test_its_pod_is_being_deleted_and_not_gone_yet(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        cluster.kubelet.pause()
        delete_pod(cluster, "worker")
        await anyio.sleep(9)
        assert row(cluster, "worker") == ("Running", "True", "Placed", "")
        await anyio.sleep(2)
    text = "WaitingForPodGone: orw-worker on gpu-node-0"
    assert row(cluster, "worker") == ("Running", "True", "Placed", text)


async def test_abandoned_claim(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster, NO_TIMEOUT):
        await submit_stuck(cluster)
        claim = claim_of(cluster, "creator")
        await anyio.sleep(130)
    text = f"ReplacingWedgedClaim: {claim} on gpu-node-0: it kept refusing the Pod"
    assert ("Pending", "False", "ReplacingWedgedClaim", text) in rows_of(cluster, "worker")


async def test_seat_lost_and_not_restored(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submit(cluster, "creator", "worker")
        claim = claim_of(cluster, "creator")
        edit_seats(cluster, claim, lambda seats: [seats[0], foreign_seat("intruder")])
        await cluster.settle()
    text = f"SeatLost: the seat on {claim} is taken"
    assert ("Pending", "False", "SeatLost", text) in rows_of(cluster, "worker")


async def test_device_class_missing(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.fleet.remove_device_class()
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    text = f"InvalidConfiguration: device class {DRIVER} does not exist"
    assert row(cluster, "worker") == ("Pending", "False", "InvalidConfiguration", text)


async def test_pod_refused_for_now(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    faults.add(Refuse(lambda: Forbidden("exceeded quota", status=403)), verb="create", kind=PODS, times=None)
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
    assert row(cluster, "worker") == ("Pending", "False", "PodRejected", "PodRejected: exceeded quota")


async def test_invalid_spec(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster):
        await submit(cluster, "worker", accelerator={"memory": "20Gi", "type": "TPU"})
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Failed", "False", "InvalidSpec")
    assert text.startswith("InvalidSpec: accelerator.type: ")


async def test_invalid_template(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster):
        await submit(cluster, "worker", workerContainerName="absent")
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Failed", "False", "InvalidTemplate")
    assert text.startswith("InvalidTemplate: ")


async def test_invalid_pod(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    error = Invalid("spec.x: Invalid value", status=422, fields=("spec.x",))
    faults.add(Refuse(lambda: error), verb="create", kind=PODS)
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
    text = "InvalidTemplate: spec.x: Invalid value"
    assert row(cluster, "worker") == ("Failed", "False", "InvalidTemplate", text)


async def test_foreign_pod_under_our_name(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.server.create(PODS, NAMESPACE, plain_pod("orw-worker"))
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Failed", "False", "PodConflict")
    assert text.startswith("PodConflict: ")


async def test_placement_timeout_where_nothing_ever_fit(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, SETTINGS):
        cluster.workloads.submit(workload("worker", memory="200Gi"))
        await anyio.sleep(16 * 60)
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Failed", "False", "Unsatisfiable")
    assert text.startswith("PlacementTimeout: waited 15m; last: NoCapacity: ")


async def test_placement_timeout_of_a_busy_fleet(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, SETTINGS):
        await submit(cluster, "holder", "worker", shared=False)
        await anyio.sleep(16 * 60)
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Failed", "False", "Unschedulable")
    assert text.startswith("PlacementTimeout: waited 15m; last: WaitingForCapacity: ")


async def test_pod_failed(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        cluster.kubelet.fail(cluster.workloads.pod_key("worker"), "CUDA out of memory")
        await cluster.settle()
    text = "PodFailed: container worker exited with code 1 (Error: CUDA out of memory)"
    assert row(cluster, "worker") == ("Failed", "True", "Placed", text)


async def test_pod_succeeded(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))
        await cluster.settle()
    assert row(cluster, "worker") == ("Succeeded", "True", "Placed", "")


async def test_the_reason_is_not_rewritten_for_a_count(cluster: SimulatedCluster) -> None:
    """Another full node of the same shape changes kube-scheduler's message, but not the reason."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, NO_TIMEOUT):
        await submit(cluster, "holder", "worker", shared=False)
        before = cluster.workloads.status("worker")
        cluster.fleet.add_node("cordoned-new", NodeShape(gpu_memory="10Gi"))
        await cluster.settle()
        assert cluster.workloads.status("worker") == before


async def test_the_reason_is_rewritten_when_the_limit_changes(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submit(cluster, "first", "second", "worker")
        assert "shared claims hold at most 2 workers" in row(cluster, "worker")[3]
    one = SETTINGS.model_copy(update={"max_seats_per_claim": 1})
    async with simulated_controller(cluster, one, identity="successor"):
        await cluster.settle()
    assert "shared claims hold at most 1 worker" in row(cluster, "worker")[3]


async def test_a_long_message_is_truncated(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    faults.add(Delay(), verb="create", kind=PODS)
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
        cluster.kubelet.fail(cluster.workloads.pod_key("worker"), "x" * 5000)
        await cluster.settle()
    assert len(row(cluster, "worker")[3]) == 1024
