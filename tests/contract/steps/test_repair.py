"""Contract §5.6: repair of what a crash, a manual edit or another process left inconsistent."""

from __future__ import annotations

import anyio
import pytest

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import PODS
from simulation.checks.invariants import violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import (
    LIMIT_OF_ONE,
    LIMIT_OF_TWO,
    assert_sound,
    claim_of,
    edit_seats,
    edit_status,
    foreign_seat,
    pod_uid,
    remove_seat,
    row,
    seat_of,
    submit,
    writes_of,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"


# Pod and status disagree.


async def test_a_live_pod_overrides_a_cleared_status(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        before, first = cluster.workloads.status("worker"), pod_uid(cluster, "worker")
    edit_status(cluster, "worker", claimName=None, assignmentID=None, phase="Pending")
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
    after = cluster.workloads.status("worker")
    assert pod_uid(cluster, "worker") == first
    assert [after[k] for k in ("claimName", "assignmentID", "phase")] == [
        before[k] for k in ("claimName", "assignmentID", "phase")
    ]
    assert_sound(cluster, "worker")


async def test_a_live_pod_overrides_a_status_with_another_assignment(cluster: SimulatedCluster) -> None:
    """The Pod's claim is live, and its ledger has the seat with the Pod's assignment."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        first = pod_uid(cluster, "worker")
    edit_status(cluster, "worker", assignmentID="another")
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
    assert pod_uid(cluster, "worker") == first
    assert_sound(cluster, "worker")


async def test_an_unrecorded_pod_whose_claim_is_gone_is_deleted(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster, LIMIT_OF_ONE):
        await submit(cluster, "worker", "other")
        first = pod_uid(cluster, "worker")
    # The status names an existing seat elsewhere, and the Pod's claim has no seat of the worker.
    other, mine = claim_of(cluster, "other"), claim_of(cluster, "worker")
    seat = seat_of(cluster, "worker")
    assert seat is not None
    remove_seat(cluster, mine, "worker")
    edit_seats(cluster, other, lambda seats: [*seats, {**seat[1], "assignmentID": "elsewhere"}])
    edit_status(cluster, "worker", claimName=other, assignmentID="elsewhere")
    async with simulated_controller(cluster, identity="successor"):
        # The sweep releases the ledger that was emptied manually, within twelve minutes.
        await anyio.sleep(730)
        await cluster.settle()
    assert pod_uid(cluster, "worker") not in {"", first}
    assert_sound(cluster, "worker")
    assert claim_of(cluster, "worker") == other
    assert violations_at_rest(cluster) == []


async def test_no_pod_is_deleted_because_of_a_lagging_cache(cluster: SimulatedCluster) -> None:
    """Another process moves the worker, and the cache shows the new status before the new Pod."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO, identity="mover"):
        await submit(cluster, "creator", "second", "waiter")
        async with simulated_controller(cluster, LIMIT_OF_TWO, identity="onlooker") as onlooker:
            cluster.watches.lag_seconds = lambda client, kind: (
                5.0 if client == "onlooker" and kind is PODS else 0.0
            )
            cluster.workloads.delete("second")
            await cluster.settle()
            assert not onlooker.client.crashed
            deleted = [
                change
                for change in cluster.server.history(PODS)
                if change.type.value == "DELETED" and change.record.key.name == "orw-waiter"
            ]
            assert len(deleted) == 1, "only the refused Pod was deleted"
    assert row(cluster, "waiter") == ("Running", "True", "Placed", "")


# The seat.


async def test_a_seat_removed_by_hand_is_booked_again_under_the_same_assignment(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "first", "second")
        before, uid, claim = (
            seat_of(cluster, "second"),
            pod_uid(cluster, "second"),
            claim_of(cluster, "second"),
        )
        remove_seat(cluster, claim, "second")
        await cluster.settle()
        assert seat_of(cluster, "second") == before
        assert pod_uid(cluster, "second") == uid
    assert_sound(cluster, "second")


async def test_the_last_seat_removed_by_hand_is_booked_again_too(cluster: SimulatedCluster) -> None:
    """An empty ledger accepts the repair, because the claim is live and its Pod runs."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        before, uid = seat_of(cluster, "worker"), pod_uid(cluster, "worker")
        remove_seat(cluster, claim_of(cluster, "worker"), "worker")
        await cluster.settle()
        assert (seat_of(cluster, "worker"), pod_uid(cluster, "worker")) == (before, uid)


async def test_a_seat_under_another_assignment_is_rewritten(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "first", "second")
        before, uid = seat_of(cluster, "second"), pod_uid(cluster, "second")

        def forge(seats: list[Document]) -> list[Document]:
            return [{**s, "assignmentID": "forged"} if s["workload"] == "second" else s for s in seats]

        edit_seats(cluster, claim_of(cluster, "second"), forge)
        await cluster.settle()
        assert (seat_of(cluster, "second"), pod_uid(cluster, "second")) == (before, uid)


async def test_the_seat_is_checked_without_a_pod_too(cluster: SimulatedCluster) -> None:
    """The process crashed after the commit, and the seat was removed: it is restored before the Pod."""
    cluster.fleet.add_nodes(1)
    cluster.kubelet.hold(cluster.workloads.pod_key("worker"))
    async with simulated_controller(cluster):
        await submit(cluster, "creator", "worker")
        before = cluster.workloads.status("worker")["assignmentID"]
    cluster.server.delete(PODS, "orw-worker", NAMESPACE, grace_seconds=0)
    remove_seat(cluster, claim_of(cluster, "worker"), "worker")
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
        kinds = [write.split()[1] for write in writes_of(cluster, client="successor")]
        assert kinds.index("claimledgers") < kinds.index("pods")
    assert cluster.workloads.status("worker")["assignmentID"] == before
    assert_sound(cluster, "worker")


@pytest.mark.parametrize("why", ["full", "exclusive"])
async def test_a_refused_seat_is_lost_and_the_worker_is_placed_again(
    cluster: SimulatedCluster, why: str
) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submit(cluster, "first", "second", "third")
        claim, uid = claim_of(cluster, "second"), pod_uid(cluster, "second")
        before = cluster.workloads.status("second")["assignmentID"]
        assert claim == claim_of(cluster, "first")
        seated = dict(cluster.workloads.seats())[claim]
        assert seated == ["first", "second"]
        intruder = foreign_seat("intruder", exclusive=why == "exclusive")
        keep = "first" if why == "full" else ""
        edit_seats(cluster, claim, lambda seats: [*(s for s in seats if s["workload"] == keep), intruder])
        await cluster.wait_until(lambda: row(cluster, "second")[2] == "SeatLost", "no SeatLost")
        assert cluster.workloads.pod("second") is None, "the Pod is gone before the status changes"
        await cluster.settle()
    assert row(cluster, "second") == ("Running", "True", "Placed", "")
    assert claim_of(cluster, "second") != claim
    assert pod_uid(cluster, "second") != uid
    assert cluster.workloads.status("second")["assignmentID"] != before
    assert_sound(cluster, "second")


async def test_repair_evicts_no_other_worker(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submit(cluster, "first", "second")
        claim, uid = claim_of(cluster, "first"), pod_uid(cluster, "first")
        edit_seats(cluster, claim, lambda seats: [seats[0], foreign_seat("intruder")])
        await cluster.settle()
        assert pod_uid(cluster, "first") == uid
        assert cluster.workloads.seats()[claim][0] == "first"
        assert row(cluster, "second")[0] == "Pending"
