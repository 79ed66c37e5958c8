"""Contract §5.9: a worker without a claim gets a seat or its own claim, by the placement strategy."""

from __future__ import annotations

import hashlib

import anyio
import pytest

from controller.config.flags import PlacementStrategy
from informers.errors import Conflict
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS
from simulation.chaos.scripted import Faults, Refuse
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    assert_sound,
    claim_of,
    delete_claim,
    edit_seats,
    foreign_seat,
    ledger_key,
    pod_uid,
    row,
    settings_with,
    submit,
    writes_of,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
SPREAD = settings_with(placement_strategy=PlacementStrategy.SPREAD)


async def test_binpack_books_a_seat_first(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(3)
    async with simulated_controller(cluster):
        await submit(cluster, "first", "second", "third")
    assert list(cluster.workloads.seats().values()) == [["first", "second", "third"]]


async def test_spread_creates_own_claims_first_and_then_shares(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster, SPREAD):
        await submit(cluster, "first", "second", "third")
    assert sorted(len(seats) for seats in cluster.workloads.seats().values()) == [1, 2]
    assert len(cluster.workloads.in_phase("Running")) == 3
    assert violations_at_rest(cluster) == []


async def test_a_contended_ledger_does_not_lead_to_an_own_claim(cluster: SimulatedCluster) -> None:
    """All booking attempts conflict: the worker is retried with back-off, and then books the seat."""
    cluster.fleet.add_nodes(2)
    faults = Faults()
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "creator")
        hit = faults.add(Refuse(lambda: Conflict("changed", status=409)), verb="patch", kind=LEDGERS, times=7)
        await submit(cluster, "worker")
        assert hit.hits == 7
    assert cluster.workloads.seats() == {claim_of(cluster, "creator"): ["creator", "worker"]}
    assert "create resourceclaims" not in writes_of(cluster)[6:]


# A claim of the same name.


async def own_claim_name_of(cluster: SimulatedCluster, name: str, n: int = 0) -> str:
    worker = cluster.workloads.get(name)
    assert worker is not None
    uid = worker["metadata"]["uid"]
    suffix = uid[:8] if n == 0 else hashlib.sha256(f"{uid}/{n}".encode()).hexdigest()[:8]
    return f"claim-{name}-{suffix}"


def hold_claim(cluster: SimulatedCluster, name: str) -> None:
    """Create a terminating claim with that name and a foreign finalizer."""
    body: Document = {
        "metadata": {
            "name": name,
            "labels": {"openrl.io/managed": "true"},
            "finalizers": ["example.com/hold"],
        },
        "spec": {
            "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
        },
    }
    cluster.server.create(CLAIMS, NAMESPACE, body)
    cluster.server.delete(CLAIMS, name, NAMESPACE)


def remove_finalizers(cluster: SimulatedCluster, name: str) -> None:
    cluster.server.patch(CLAIMS, name, NAMESPACE, {"metadata": {"finalizers": None}})


async def test_a_terminating_own_claim_is_awaited(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.workloads.submit(workload("worker"))
    name = await own_claim_name_of(cluster, "worker")
    hold_claim(cluster, name)
    async with simulated_controller(cluster):
        await cluster.settle()
        phase, status, reason, text = row(cluster, "worker")
        assert (phase, status, reason) == ("Pending", "False", "WaitingForPredecessorClaim")
        assert text == f"WaitingForPredecessorClaim: {name} is still ending"
        remove_finalizers(cluster, name)
        await cluster.settle()
    assert claim_of(cluster, "worker") == name
    assert_sound(cluster, "worker")


async def test_a_seat_elsewhere_may_be_booked_while_the_own_claim_terminates(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    cluster.workloads.submit(workload("worker", exclusive=False))
    hold_claim(cluster, await own_claim_name_of(cluster, "worker"))
    async with simulated_controller(cluster, SPREAD):
        await cluster.settle()
        assert row(cluster, "worker")[2] == "WaitingForPredecessorClaim"
        await submit(cluster, "creator")
    assert claim_of(cluster, "worker") == claim_of(cluster, "creator") != ""
    assert_sound(cluster, "worker")


async def test_the_next_name_is_used_if_others_use_the_claim(cluster: SimulatedCluster) -> None:
    """A live claim with that name has only another worker's seat."""
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster):
        await submit(cluster, "other", shared=False)
        cluster.workloads.submit(workload("probe"))
    cluster.workloads.submit(workload("worker"))
    cluster.workloads.delete("probe")
    name, following = (
        await own_claim_name_of(cluster, "worker"),
        await own_claim_name_of(cluster, "worker", 1),
    )
    ledger = add_ledger_of_other(cluster, name)
    owner = {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "ClaimLedger",
        "name": ledger_key(name).name,
        "uid": ledger,
    }
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    body = {
        "metadata": {"name": name, "labels": {"openrl.io/managed": "true"}, "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [request]}},
    }
    cluster.server.create(CLAIMS, NAMESPACE, body)
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
    assert claim_of(cluster, "worker") == following
    assert_sound(cluster, "worker")


def add_ledger_of_other(cluster: SimulatedCluster, claim: str) -> str:
    """Create a ledger of that claim with one seat, of worker `other`; returns its UID."""
    other = cluster.workloads.get("other")
    assert other is not None
    seat = foreign_seat("other", uid=other["metadata"]["uid"], exclusive=True)
    body = {
        "metadata": {"name": ledger_key(claim).name, "labels": {"openrl.io/managed": "true"}},
        "spec": {"claimName": claim, "seats": [seat]},
    }
    return cluster.server.create(LEDGERS, NAMESPACE, body).uid


async def test_a_terminating_claim_used_by_others_is_not_awaited(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(2)
    cluster.workloads.submit(workload("other", exclusive=True), workload("worker", exclusive=True))
    name, following = (
        await own_claim_name_of(cluster, "worker"),
        await own_claim_name_of(cluster, "worker", 1),
    )
    hold_claim(cluster, name)
    add_ledger_of_other(cluster, name)
    async with simulated_controller(cluster):
        await anyio.sleep(5)
        assert claim_of(cluster, "worker") == following
        assert row(cluster, "worker")[0] == "Running"


async def test_a_creator_continues_with_its_own_ledger_after_a_crash(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.workloads.submit(workload("worker"))
    worker = cluster.workloads.get("worker")
    assert worker is not None
    name = await own_claim_name_of(cluster, "worker")
    seat = foreign_seat("worker", uid=worker["metadata"]["uid"])
    body = {
        "metadata": {"name": ledger_key(name).name, "labels": {"openrl.io/managed": "true"}},
        "spec": {"claimName": name, "seats": [seat]},
    }
    created = cluster.server.create(LEDGERS, NAMESPACE, body)
    async with simulated_controller(cluster):
        await cluster.settle()
    (ledger,) = cluster.workloads.ledgers()
    assert ledger["metadata"]["uid"] == created.uid
    assert claim_of(cluster, "worker") == name
    assert_sound(cluster, "worker")


# A claim that the fleet has outgrown.


async def test_an_unallocated_own_claim_that_lacks_a_shape_is_recreated(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1, NodeShape(gpu_memory="24Gi"))
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await submit(cluster, "holder", "lora", shared=False)
        before, uid = shapes_of(cluster, "lora"), pod_uid(cluster, "lora")
        assert before == ["t1x24"]
        cluster.fleet.add_node("big", NodeShape(gpu_memory="80Gi"))
        await anyio.sleep(60)
        await cluster.settle()
        assert shapes_of(cluster, "lora") == ["t1x24", "t1x80"]
        assert pod_uid(cluster, "lora") != uid
    assert row(cluster, "lora")[0] == "Running"
    assert cluster.workloads.status("lora")["nodeName"] == "big"
    assert violations_at_rest(cluster) == []
    assert not invariants.violations


async def test_an_allocated_claim_is_not_recreated(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1, NodeShape(gpu_memory="24Gi"))
    async with simulated_controller(cluster):
        await submit(cluster, "lora", shared=False)
        claim, uid = claim_of(cluster, "lora"), pod_uid(cluster, "lora")
        cluster.fleet.add_node("big", NodeShape(gpu_memory="80Gi"))
        await cluster.settle()
    assert (claim_of(cluster, "lora"), pod_uid(cluster, "lora")) == (claim, uid)


def shapes_of(cluster: SimulatedCluster, name: str) -> list[str]:
    """Return the shapes that a worker's claim lists."""
    claim = cluster.server.document(CLAIMS, claim_of(cluster, name), NAMESPACE)
    assert claim is not None
    (request,) = claim["spec"]["devices"]["requests"]
    return [shape["name"] for shape in request["firstAvailable"]]


# The order in which seats are assigned (contract §6).


async def test_a_new_workload_yields_to_waiting_workers(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    two = settings_with(max_seats_per_claim=2)
    async with simulated_controller(cluster, two):
        await submit(cluster, "first", "second", "old")
        cluster.workloads.delete("second")
        await cluster.wait_until(
            lambda: "second" not in cluster.workloads.seats()[claim_of(cluster, "first")], "no seat is freed"
        )
        cluster.workloads.submit(workload("brand-new"))
        await cluster.settle()
    assert cluster.workloads.seats()[claim_of(cluster, "first")] == ["first", "old"]
    assert row(cluster, "brand-new")[0] == "Pending"


async def test_a_ledger_above_the_limit_accepts_and_evicts_no_worker(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    two = settings_with(max_seats_per_claim=2)
    async with simulated_controller(cluster):
        await submit(cluster, "first", "second", "third")
    claim = claim_of(cluster, "first")
    uids = [pod_uid(cluster, name) for name in ("first", "second", "third")]
    async with simulated_controller(cluster, two, identity="limited"):
        await submit(cluster, "fourth")
        assert cluster.workloads.seats()[claim] == ["first", "second", "third"]
        cluster.workloads.delete("third")
        await cluster.settle()
        assert cluster.workloads.seats()[claim] == ["first", "second"]
        assert row(cluster, "fourth")[0] == "Pending"
    assert [pod_uid(cluster, name) for name in ("first", "second")] == uids[:2]


async def test_a_claim_without_a_ledger_is_not_joined(cluster: SimulatedCluster) -> None:
    """The claim is being garbage collected, so the new worker creates its own."""
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster):
        await submit(cluster, "creator")
        claim = claim_of(cluster, "creator")
        delete_claim(cluster, claim)
        edit_seats(cluster, claim, lambda seats: seats)
        await submit(cluster, "worker")
    assert claim_of(cluster, "worker") not in {"", claim}
