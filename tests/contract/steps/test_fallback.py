"""Contract §5.8: kube-scheduler refuses the Pod of an unallocated claim; the worker shares instead."""

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
from simulation.cluster.simulated import SimulatedCluster
from tests.contract.harness import (
    LIMIT_OF_TWO,
    assert_sound,
    claim_of,
    delete_pod,
    give_verdict,
    ledger_key,
    pod_uid,
    row,
    submit,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"


async def a_full_claim_and_a_waiter(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await submit(cluster, "creator", "second", "waiter")
    assert row(cluster, "waiter")[:3] == ("Pending", "False", "Unschedulable")


def is_in_order(things: list[str], wanted: list[str]) -> bool:
    """Whether `wanted` is found among `things` in its order, with others in between or not."""
    rest = iter(things)
    return all(any(thing == each for thing in rest) for each in wanted)


async def test_seat_old_pod_commit_new_pod_and_then_the_old_claim(cluster: SimulatedCluster) -> None:
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
    assert not was_an_unrecorded_seat_released(cluster, "waiter"), (
        "the old seat is given back by the move itself"
    )
    assert claim_of(cluster, "waiter") == claim_of(cluster, "creator")
    assert pod_uid(cluster, "waiter") != first
    assert own not in cluster.workloads.seats()
    assert_sound(cluster, "waiter")
    assert violations_at_rest(cluster, limit=2) == []
    assert not invariants.violations


@pytest.mark.parametrize("reason", ["SchedulerError", "SchedulingGated", ""])
async def test_no_other_verdict_counts(cluster: SimulatedCluster, reason: str) -> None:
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        cluster.fleet.add_nodes(2)
        cluster.scheduler.pause()
        await submit(cluster, "worker")
        own = claim_of(cluster, "worker")
        if reason:
            give_verdict(cluster, "worker", reason)
        cluster.fleet.add_node("late")
        await anyio.sleep(600)
        assert claim_of(cluster, "worker") == own
        cluster.scheduler.resume()
        await cluster.wait_until(lambda: row(cluster, "worker")[0] == "Running", "does not run")


async def test_a_pod_that_waits_without_a_verdict_is_not_moved_to_a_free_seat(
    cluster: SimulatedCluster,
) -> None:
    """There is no timer: only kube-scheduler's word starts the move."""
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


async def test_a_pod_bound_meanwhile_keeps_its_claim_and_the_new_seat_is_given_back(
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
    assert not was_an_unrecorded_seat_released(cluster, "waiter"), "the new seat is given back at once"
    assert (claim_of(cluster, "waiter"), pod_uid(cluster, "waiter")) == (own, first)
    assert row(cluster, "waiter") == ("Running", "True", "Placed", "")
    assert cluster.workloads.seats() == {claim_of(cluster, "creator"): ["creator"], own: ["waiter"]}
    assert violations_at_rest(cluster, limit=2) == []
    assert not invariants.violations


def was_an_unrecorded_seat_released(cluster: SimulatedCluster, name: str) -> bool:
    """Whether repair ever had to fence and release a seat that a step should have given back itself."""
    return any(
        "releasing the seat" in condition.get("message", "")
        for change in cluster.server.history(WORKLOADS)
        if change.record.key.name == name
        for condition in (change.record.document.get("status") or {}).get("conditions") or ()
    )


def allocate(cluster: SimulatedCluster, claim: str, node: str, pod: str) -> None:
    """What kube-scheduler writes when it finds a device."""

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


async def test_a_version_that_moved_on_gives_the_seat_back_and_is_decided_again(
    cluster: SimulatedCluster,
) -> None:
    """409 on the Pod's version, and it is still unbound: the next decision moves it."""
    faults = Faults()
    invariants = InvariantChecker(cluster, limit=2)
    async with simulated_controller(cluster, LIMIT_OF_TWO, interceptor=faults):
        await a_full_claim_and_a_waiter(cluster)
        hit = faults.add(
            Meanwhile(lambda: give_verdict(cluster, "waiter", "Unschedulable")),
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


async def test_a_commit_that_is_refused_gives_the_seat_back(cluster: SimulatedCluster) -> None:
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


async def test_a_joined_claim_that_lost_its_device_is_left_for_a_claim_of_its_own(
    cluster: SimulatedCluster,
) -> None:
    """No ledger accepts the worker and the claim is another's: delete the Pod, clear, release, cut."""
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await submit(cluster, "creator", "worker")
        shared = claim_of(cluster, "creator")
        # The node goes, and both Pods with it: the claim is deallocated, and kube-scheduler refuses both.
        cluster.fleet.add_node("taken")
        await submit(cluster, "lora", shared=False)
        cluster.fleet.remove_node("gpu-node-0")
        await anyio.sleep(60)
        await cluster.settle()
        assert claim_of(cluster, "creator") == shared, "its own claim is kept"
        assert claim_of(cluster, "worker") not in {"", shared}
        assert cluster.workloads.seats()[shared] == ["creator"]
        assert cluster.workloads.seats()[claim_of(cluster, "worker")] == ["worker"]
        assert row(cluster, "worker")[:3] == ("Pending", "False", "Unschedulable")
    assert violations_at_rest(cluster) == []
    assert not invariants.violations


async def test_every_seat_is_checked_again_where_its_claim_moved(cluster: SimulatedCluster) -> None:
    """The claim has found a device on a node that refuses one of its workers: that one moves at once."""
    cluster.fleet.add_nodes(1, NodeShape(roles=("trainer", "sampler")))
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await submit(cluster, "trainer")
        await submit(cluster, "sampler", role="sampler")
        shared = claim_of(cluster, "trainer")
        assert claim_of(cluster, "sampler") == shared
        cluster.fleet.add_node("samplers", NodeShape(roles=("sampler",)))
        first = pod_uid(cluster, "sampler")
        # The node takes trainers only from now on, and the sampler loses its Pod.
        cluster.fleet.set_labels("gpu-node-0", {"openrl.io/sampler": None})
        delete_pod(cluster, "sampler")
        await anyio.sleep(20)
        assert row(cluster, "sampler")[0] == "Running", "it does not wait for two minutes of refusal"
        assert pod_uid(cluster, "sampler") != first
    assert row(cluster, "trainer")[0] == "Running"
    assert claim_of(cluster, "trainer") == shared
    assert cluster.workloads.status("sampler")["nodeName"] == "samplers"
    assert violations_at_rest(cluster) == []
    assert not invariants.violations


async def test_an_exclusive_worker_keeps_its_pending_claim_and_pod(cluster: SimulatedCluster) -> None:
    """They start by themselves when a device frees, and are the autoscaler's signal."""
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


async def test_two_claims_never_serve_one_worker(cluster: SimulatedCluster) -> None:
    """After a lost Pod on a claim without a device the worker still ends with one seat."""
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await a_full_claim_and_a_waiter(cluster)
        delete_pod(cluster, "waiter")
        cluster.workloads.delete("second")
        await cluster.settle()
    assert violations_at_rest(cluster, limit=2) == []
    assert row(cluster, "waiter")[0] == "Running"
