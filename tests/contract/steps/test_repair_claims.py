"""Contract §5.6: repair of missing ledgers, unrecorded seats, and missing or terminating claims."""

from __future__ import annotations

import anyio
import pytest

from informers.api import ObjectKey
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS
from simulation.chaos.scripted import Faults, Meanwhile
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.checks.pod_facts import owner_uid
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    LIMIT_OF_ONE,
    LIMIT_OF_TWO,
    assert_sound,
    claim_of,
    delete_claim,
    edit_seats,
    edit_status,
    foreign_seat,
    ledger_key,
    pod_uid,
    remove_seat,
    row,
    seat_of,
    submit,
    writes_of,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"


# The ledger.


async def test_a_ledger_deleted_under_a_live_claim_is_recreated_and_the_claim_repointed(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "first", "second")
        claim = claim_of(cluster, "first")
        (before,) = cluster.workloads.claims()
        uids = [pod_uid(cluster, name) for name in ("first", "second")]
        cluster.server.delete(LEDGERS, ledger_key(claim).name, NAMESPACE)
        await cluster.settle()
        (after,) = cluster.workloads.claims()
        (ledger,) = cluster.workloads.ledgers()
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "the claim is kept"
    assert [owner["uid"] for owner in after["metadata"]["ownerReferences"]] == [ledger["metadata"]["uid"]]
    assert sorted(cluster.workloads.seats()[claim]) == ["first", "second"]
    assert [pod_uid(cluster, name) for name in ("first", "second")] == uids
    for name in ("first", "second"):
        assert_sound(cluster, name)


async def test_the_claim_is_repointed_before_anything_else_is_written(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        mark = len(cluster.audit)
        cluster.server.delete(LEDGERS, ledger_key(claim_of(cluster, "worker")).name, NAMESPACE)
        await cluster.settle()
        assert writes_of(cluster, mark)[:2] == ["create claimledgers", "patch resourceclaims"]


async def test_a_recreated_ledger_obeys_a_lowered_limit(cluster: SimulatedCluster) -> None:
    """The claim had three seats and the limit is now two. The oldest two are restored, the third moves."""
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster):
        await submit(cluster, "first", "second", "third")
        claim = claim_of(cluster, "first")
    invariants = InvariantChecker(cluster, limit=2)
    async with simulated_controller(cluster, LIMIT_OF_TWO, identity="successor"):
        with invariants.suspended():
            cluster.server.delete(LEDGERS, ledger_key(claim).name, NAMESPACE)
        await cluster.settle()
    assert sorted(cluster.workloads.seats()[claim]) == ["first", "second"]
    assert cluster.workloads.in_phase("Running") == ["first", "second", "third"]
    assert violations_at_rest(cluster, limit=2) == []
    assert not invariants.violations


# Unrecorded seats.


async def test_an_unrecorded_seat_of_a_worker_without_a_claim_is_adopted(cluster: SimulatedCluster) -> None:
    """The process crashed between booking and commit: the seat is adopted under a new assignment ID."""
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster):
        await submit(cluster, "creator")
        claim = claim_of(cluster, "creator")
    cluster.workloads.submit(workload("worker"))
    worker = cluster.workloads.get("worker")
    assert worker is not None
    unrecorded = {**foreign_seat("worker", uid=worker["metadata"]["uid"]), "assignmentID": "uncommitted"}
    edit_seats(cluster, claim, lambda seats: [*seats, unrecorded])
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
    assert cluster.workloads.seats() == {claim: ["creator", "worker"]}
    assert cluster.workloads.status("worker")["assignmentID"] != "uncommitted"
    assert_sound(cluster, "worker")


async def test_an_unrecorded_seat_elsewhere_is_released_after_a_fencing_write(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(2)
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster, LIMIT_OF_ONE):
        await submit(cluster, "worker", "other")
    seat = seat_of(cluster, "worker")
    assert seat is not None
    mine, other = claim_of(cluster, "worker"), claim_of(cluster, "other")
    edit_seats(cluster, other, lambda seats: [*seats, {**seat[1], "assignmentID": "unrecorded-1"}])
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
        assert writes_of(cluster, client="successor")[:2] == ["patch workloads/status", "patch claimledgers"]
        (condition,) = cluster.workloads.status("worker")["conditions"]
        assert other in condition["message"]
        assert "unrecorded-1" in condition["message"]
    assert cluster.workloads.seats() == {mine: ["worker"], other: ["other"]}
    assert row(cluster, "worker")[0] == "Running"
    assert not invariants.violations


async def test_only_the_assignment_seen_before_the_fencing_write_is_released(
    cluster: SimulatedCluster,
) -> None:
    """The seat is booked again between fencing write and release: the new booking is kept."""
    cluster.fleet.add_nodes(2)
    faults = Faults()
    async with simulated_controller(cluster, LIMIT_OF_ONE):
        await submit(cluster, "worker", "other")
    seat = seat_of(cluster, "worker")
    assert seat is not None
    other = claim_of(cluster, "other")
    edit_seats(cluster, other, lambda seats: [*seats, {**seat[1], "assignmentID": "unrecorded-1"}])

    def book_anew() -> None:
        def rewrite(seats: list[Document]) -> list[Document]:
            return [{**s, "assignmentID": "unrecorded-2"} if s["workload"] == "worker" else s for s in seats]

        edit_seats(cluster, other, rewrite)

    faults.add(Meanwhile(book_anew), verb="patch", kind=LEDGERS, name=ledger_key(other).name)
    async with simulated_controller(cluster, identity="successor", interceptor=faults):
        await cluster.settle()
        released = [
            e.request.body
            for e in cluster.calls(client="successor")
            if e.request.kind is LEDGERS and e.error is None
        ]
        fencing_writes = [d for d in writes_of(cluster, client="successor") if d == "patch workloads/status"]
        assert len(fencing_writes) == 2, "the new booking needs its own fencing write"
        assert released
    assert cluster.workloads.seats()[other] == ["other"]


# The claim.


@pytest.mark.parametrize("allowed", ["at once", "protected"])
async def test_a_manually_deleted_claim_leads_to_a_new_assignment(
    cluster: SimulatedCluster, allowed: str
) -> None:
    """An unallocated claim is gone at once; an allocated one exists as long as its Pod."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "holder", shared=False)
        await submit(cluster, "worker", shared=False)
        claim, before = claim_of(cluster, "worker"), cluster.workloads.status("worker")["assignmentID"]
        if allowed == "protected":
            cluster.fleet.add_node("second")
            await cluster.settle()
            assert row(cluster, "worker")[0] == "Running"
            cluster.server.delete(PODS, "orw-worker", NAMESPACE)
        delete_claim(cluster, claim)
        if allowed == "at once":
            cluster.fleet.add_node("second")
        await cluster.settle()
    assert row(cluster, "worker")[0] == "Running"
    assert cluster.workloads.status("worker")["assignmentID"] != before
    assert_sound(cluster, "worker")
    assert violations_at_rest(cluster) == []


async def test_a_terminating_claim_with_a_running_pod_keeps_its_seats(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.fleet.add_node("spare")
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        claim, uid = claim_of(cluster, "worker"), pod_uid(cluster, "worker")
        (deleted,) = cluster.workloads.claims()
        invariants.exempt(deleted["metadata"]["uid"])
        delete_claim(cluster, claim)
        await cluster.settle()
        assert pod_uid(cluster, "worker") == uid
        assert row(cluster, "worker")[0] == "Running"
        assert_sound(cluster, "worker")

        # No worker joins it in the meantime.
        await submit(cluster, "newcomer")
        assert claim_of(cluster, "newcomer") not in {"", claim}

        # Its seat is repaired there as well.
        with invariants.suspended():
            remove_seat(cluster, claim, "worker")
        await cluster.settle()
        assert cluster.workloads.seats()[claim] == ["worker"]
        assert pod_uid(cluster, "worker") == uid

        cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))
        await cluster.settle()
    assert row(cluster, "worker")[0] == "Succeeded"
    assert list(cluster.workloads.seats().values()) == [["newcomer"]]
    assert not invariants.violations


async def test_a_pod_running_on_a_terminating_claim_overrides_a_cleared_status(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        claim, uid = claim_of(cluster, "worker"), pod_uid(cluster, "worker")
    delete_claim(cluster, claim)
    edit_status(cluster, "worker", claimName=None, assignmentID=None)
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
    assert (claim_of(cluster, "worker"), pod_uid(cluster, "worker")) == (claim, uid)
    assert_sound(cluster, "worker")


async def test_an_inconsistent_pod_is_deleted_once_and_awaited_without_reads(
    cluster: SimulatedCluster,
) -> None:
    """The process ends slowly: the status reports the wait, and there is no loop of reads."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster) as process:
        await submit(cluster, "creator", "worker")
        cluster.kubelet.pause()
        edit_seats(
            cluster,
            claim_of(cluster, "worker"),
            lambda seats: [s for s in seats if s["workload"] != "worker"],
        )
        edit_status(cluster, "worker", assignmentID="another")
        cluster.server.delete(PODS, "orw-worker", NAMESPACE)
        mark = process.client.statistics().requests
        await anyio.sleep(60)
        assert process.client.statistics().requests - mark < 40
        assert row(cluster, "worker")[3] == "WaitingForPodGone: orw-worker on gpu-node-0"


async def test_removing_the_label_of_a_claim_ends_no_worker(cluster: SimulatedCluster) -> None:
    """The claim leaves the cache, not the cluster: a live read shows it."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        uid, claim = pod_uid(cluster, "worker"), claim_of(cluster, "worker")

        def unlabel(document: Document) -> None:
            document["metadata"]["labels"] = {}

        cluster.server.edit(CLAIMS, ObjectKey(NAMESPACE, claim), unlabel)
        await cluster.settle()
    assert pod_uid(cluster, "worker") == uid
    assert row(cluster, "worker")[0] == "Running"


async def test_a_deleted_claim_without_its_label_leaves_the_cache(
    cluster: SimulatedCluster,
) -> None:
    """The answer to the delete shows the claim terminating; the label-selected watch shows no deletion."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster) as process:
        await submit(cluster, "worker")
        claim = claim_of(cluster, "worker")
        cluster.kubelet.pause()
        cluster.claim_controller.pause()
        cluster.workloads.delete("worker")
        await cluster.settle()
        cluster.server.edit(CLAIMS, ObjectKey(NAMESPACE, claim), lambda body: body["metadata"].pop("labels"))
        cluster.kubelet.resume()
        await cluster.settle()
        assert cluster.server.store.get(CLAIMS, ObjectKey(NAMESPACE, claim)) is not None
        cluster.claim_controller.resume()
        await cluster.settle()
        assert cluster.server.store.get(CLAIMS, ObjectKey(NAMESPACE, claim)) is None
        assert not tuple(process.controller.caches.claims.store)


async def test_an_earlier_controllers_placement_is_taken_over_unchanged(cluster: SimulatedCluster) -> None:
    """Contract §2.3: no seat moves and no Pod restarts, whatever other fields it wrote."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "first", "second")
    claim = claim_of(cluster, "first")
    edit_seats(
        cluster, claim, lambda seats: [{**s, "hostRequest": "512Mi", "unknown": "kept"} for s in seats]
    )
    pods, seats = cluster.workloads.pods(), cluster.workloads.ledgers()
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
        assert (cluster.workloads.pods(), cluster.workloads.ledgers()) == (pods, seats)
        await submit(cluster, "third")
        (ledger,) = cluster.workloads.ledgers()
        kept = [seat.get("unknown") for seat in ledger["spec"]["seats"]]
        assert kept == ["kept", "kept", None], "our writes preserve unknown fields"
    assert {owner_uid(pod) for pod in pods}
