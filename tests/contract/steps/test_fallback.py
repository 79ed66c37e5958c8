"""Contract §5.8: kube-scheduler refuses the Pod of an unallocated claim, so the worker shares."""

from __future__ import annotations

import anyio
import pytest

from informers.errors import Conflict
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, PODS, WORKLOADS
from simulation.chaos.scripted import Faults, Meanwhile, Refuse
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import (
    LIMIT_OF_TWO,
    assert_sound,
    claim_of,
    delete_pod,
    ledger_key,
    pod_uid,
    row,
    set_unschedulable,
    submit,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"


async def a_full_claim_and_a_waiter(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await submit(cluster, "creator", "second", "waiter")
    assert row(cluster, "waiter")[:3] == ("Pending", "False", "Unschedulable")


def is_in_order(things: list[str], wanted: list[str]) -> bool:
    """Return whether `things` contains `wanted` as a subsequence."""
    rest = iter(things)
    return all(any(thing == each for thing in rest) for each in wanted)


async def test_the_move_order_is_seat_old_pod_commit_new_pod_old_claim(cluster: SimulatedCluster) -> None:
    invariants = InvariantChecker(cluster, limit=2)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await a_full_claim_and_a_waiter(cluster)
        own, first = claim_of(cluster, "waiter"), pod_uid(cluster, "waiter")
        mark = len(cluster.audit)
        cluster.workloads.delete("second")
        await cluster.settle()
        written = [
            f"{entry.request.verb} {entry.request.name}"
            for entry in cluster.calls(since=mark)
            if entry.request.writes
        ]
        assert is_in_order(
            written,
            [
                f"patch {ledger_key(claim_of(cluster, 'creator')).name}",
                "delete orw-waiter",
                "patch waiter",
                "create orw-waiter",
                f"patch {ledger_key(own).name}",
                f"delete {ledger_key(own).name}",
                f"delete {own}",
            ],
        ), written
        reasons = [
            (change.record.document.get("status") or {}).get("reason", "")
            for change in cluster.server.history(WORKLOADS)
            if change.record.key.name == "waiter"
        ]
        assert f"SharedOnUnschedulable: {claim_of(cluster, 'creator')}" in reasons
    assert not was_an_unrecorded_seat_released(cluster, "waiter"), "the move itself releases the old seat"
    assert claim_of(cluster, "waiter") == claim_of(cluster, "creator")
    assert pod_uid(cluster, "waiter") != first
    assert own not in cluster.workloads.seats()
    assert_sound(cluster, "waiter")
    assert violations_at_rest(cluster, limit=2) == []
    assert not invariants.violations


@pytest.mark.parametrize("reason", ["SchedulerError", "SchedulingGated", ""])
async def test_no_other_condition_triggers_the_fallback(cluster: SimulatedCluster, reason: str) -> None:
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        cluster.fleet.add_nodes(2)
        cluster.scheduler.pause()
        await submit(cluster, "worker")
        own = claim_of(cluster, "worker")
        if reason:
            set_unschedulable(cluster, "worker", reason)
        cluster.fleet.add_node("late")
        await anyio.sleep(600)
        assert claim_of(cluster, "worker") == own
        cluster.scheduler.resume()
        await cluster.wait_until(lambda: row(cluster, "worker")[0] == "Running", "does not run")


async def test_a_pod_without_a_scheduling_result_is_not_moved_to_a_free_seat(
    cluster: SimulatedCluster,
) -> None:
    """There is no timer: only the condition written by kube-scheduler starts the move."""
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "creator", "second")
        cluster.scheduler.pause()
        await submit(cluster, "waiter")
        own = claim_of(cluster, "waiter")
        cluster.workloads.delete("second")
        await anyio.sleep(900 - 60)
        assert claim_of(cluster, "waiter") == own
        cluster.scheduler.resume()
        await cluster.wait_until(lambda: row(cluster, "waiter")[0] == "Running", "does not run")
    assert claim_of(cluster, "waiter") == claim_of(cluster, "creator")


async def test_a_pod_bound_meanwhile_keeps_its_claim_and_the_new_seat_is_released(
    cluster: SimulatedCluster,
) -> None:
    faults = Faults()
    invariants = InvariantChecker(cluster, limit=2)
    async with simulated_controller(cluster, LIMIT_OF_TWO, interceptor=faults):
        await a_full_claim_and_a_waiter(cluster)
        own, first = claim_of(cluster, "waiter"), pod_uid(cluster, "waiter")

        def bind() -> None:
            cluster.scheduler.resume()
            cluster.fleet.add_node("spare")
            key = cluster.workloads.pod_key("waiter")
            allocate(cluster, own, "spare", first)
            cluster.server.bind(key, first, "spare", [{"type": "PodScheduled", "status": "True"}])

        hit = faults.add(
            Meanwhile(bind), verb="delete", kind=PODS, when=lambda request: request.name == "orw-waiter"
        )
        cluster.workloads.delete("second")
        await cluster.settle()
        assert hit.hits == 1
    assert not was_an_unrecorded_seat_released(cluster, "waiter"), "the new seat is released at once"
    assert (claim_of(cluster, "waiter"), pod_uid(cluster, "waiter")) == (own, first)
    assert row(cluster, "waiter") == ("Running", "True", "Placed", "")
    assert cluster.workloads.seats() == {claim_of(cluster, "creator"): ["creator"], own: ["waiter"]}
    assert violations_at_rest(cluster, limit=2) == []
    assert not invariants.violations


def was_an_unrecorded_seat_released(cluster: SimulatedCluster, name: str) -> bool:
    """Return whether repair released a seat that the step itself should have released."""
    return any(
        "releasing the seat" in condition.get("message", "")
        for change in cluster.server.history(WORKLOADS)
        if change.record.key.name == name
        for condition in (change.record.document.get("status") or {}).get("conditions") or ()
    )


def allocate(cluster: SimulatedCluster, claim: str, node: str, pod: str) -> None:
    """Write what kube-scheduler writes when it finds a device."""

    def change(document: Document) -> None:
        result = {"request": "gpu/t1x80", "driver": "gpu.nvidia.com", "pool": node, "device": "gpu-0"}
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        document["status"] = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            },
            "reservedFor": [{"resource": "pods", "name": "orw-waiter", "uid": pod}],
        }

    cluster.server.edit(
        CLAIMS, cluster.workloads.pod_key("waiter")._replace(name=claim), change, subresource="status"
    )


async def test_a_changed_pod_version_releases_the_new_seat_and_is_decided_again(
    cluster: SimulatedCluster,
) -> None:
    """The delete conflicts, but the Pod is still unbound: the next reconcile moves it."""
    faults = Faults()
    invariants = InvariantChecker(cluster, limit=2)
    async with simulated_controller(cluster, LIMIT_OF_TWO, interceptor=faults):
        await a_full_claim_and_a_waiter(cluster)
        hit = faults.add(
            Meanwhile(lambda: set_unschedulable(cluster, "waiter", "Unschedulable")),
            verb="delete",
            kind=PODS,
            when=lambda request: request.name == "orw-waiter",
        )
        mark = len(cluster.audit)
        cluster.workloads.delete("second")
        await cluster.settle()
        assert hit.hits == 1
        conflicts = [e for e in cluster.calls(since=mark) if isinstance(e.error, Conflict)]
        assert len(conflicts) == 1
    assert claim_of(cluster, "waiter") == claim_of(cluster, "creator")
    assert_sound(cluster, "waiter")
    assert violations_at_rest(cluster, limit=2) == []
    assert not invariants.violations


async def test_a_refused_commit_releases_the_seat(cluster: SimulatedCluster) -> None:
    faults = Faults()
    invariants = InvariantChecker(cluster, limit=2)
    async with simulated_controller(cluster, LIMIT_OF_TWO, interceptor=faults):
        await a_full_claim_and_a_waiter(cluster)
        hit = faults.add(
            Refuse(lambda: Conflict("the object has been modified", status=409)),
            verb="patch",
            kind=WORKLOADS,
            name="waiter",
            subresource="status",
        )
        cluster.workloads.delete("second")
        await cluster.settle()
        assert hit.hits == 1
    assert row(cluster, "waiter")[0] == "Running"
    assert claim_of(cluster, "waiter") == claim_of(cluster, "creator")
    assert violations_at_rest(cluster, limit=2) == []
    assert not invariants.violations


async def test_a_worker_leaves_a_joined_claim_without_a_device_for_its_own_claim(
    cluster: SimulatedCluster,
) -> None:
    """No ledger accepts the worker: it deletes the Pod, clears, releases, and creates its own claim."""
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await submit(cluster, "creator", "worker")
        shared = claim_of(cluster, "creator")
        # The node and both Pods are gone: the claim is deallocated, and kube-scheduler refuses both Pods.
        cluster.fleet.add_node("taken")
        await submit(cluster, "lora", shared=False)
        cluster.fleet.remove_node("gpu-node-0")
        await anyio.sleep(60)
        await cluster.settle()
        assert claim_of(cluster, "creator") == shared, "the creator keeps its own claim"
        assert claim_of(cluster, "worker") not in {"", shared}
        assert cluster.workloads.seats()[shared] == ["creator"]
        assert cluster.workloads.seats()[claim_of(cluster, "worker")] == ["worker"]
        assert row(cluster, "worker")[:3] == ("Pending", "False", "Unschedulable")
    assert violations_at_rest(cluster) == []
    assert not invariants.violations


async def test_every_seat_is_checked_again_after_its_claim_moved(cluster: SimulatedCluster) -> None:
    """The claim got a device on a node that does not accept the role of one worker, so this worker moves."""
    cluster.fleet.add_nodes(1, NodeShape(roles=("trainer", "sampler")))
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await submit(cluster, "trainer")
        await submit(cluster, "sampler", role="sampler")
        shared = claim_of(cluster, "trainer")
        assert claim_of(cluster, "sampler") == shared
        cluster.fleet.add_node("samplers", NodeShape(roles=("sampler",)))
        first = pod_uid(cluster, "sampler")
        # The node now accepts trainers only, and the sampler loses its Pod.
        cluster.fleet.set_labels("gpu-node-0", {"openrl.io/sampler": None})
        delete_pod(cluster, "sampler")
        await anyio.sleep(20)
        assert row(cluster, "sampler")[0] == "Running", "it moves without the two minutes of patience"
        assert pod_uid(cluster, "sampler") != first
    assert row(cluster, "trainer")[0] == "Running"
    assert claim_of(cluster, "trainer") == shared
    assert cluster.workloads.status("sampler")["nodeName"] == "samplers"
    assert violations_at_rest(cluster) == []
    assert not invariants.violations


async def test_an_exclusive_worker_keeps_its_pending_claim_and_pod(cluster: SimulatedCluster) -> None:
    """The Pod starts when a device is freed, and shows the autoscaler that one is missing."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "holder", "lora", shared=False)
        first = pod_uid(cluster, "lora")
        assert row(cluster, "lora")[:3] == ("Pending", "False", "Unschedulable")
        assert first
        cluster.fleet.add_node("new")
        await cluster.settle()
        assert pod_uid(cluster, "lora") == first
        assert row(cluster, "lora")[0] == "Running"


async def test_a_worker_ends_with_one_seat_after_moving(cluster: SimulatedCluster) -> None:
    """The worker lost its Pod on a claim without a device."""
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await a_full_claim_and_a_waiter(cluster)
        delete_pod(cluster, "waiter")
        cluster.workloads.delete("second")
        await cluster.settle()
    assert violations_at_rest(cluster, limit=2) == []
    assert row(cluster, "waiter")[0] == "Running"
