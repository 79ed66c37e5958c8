"""The booking rules of contract §4, one test for each rule and refusal."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from ledger.seat_rules import BookingPurpose, Grant, LivePod, Refusal, RefusalReason, SeatRequest, book
from ledger.state import ClaimLedger, Seat, SeatRef, seat_document
from tests.ledger.build import LEDGER_UID, ledger, names, pod, seat, seat_request

JOIN, CREATE, REPAIR = BookingPurpose.JOIN, BookingPurpose.CREATE, BookingPurpose.REPAIR


class Change(Enum):
    """What a grant does to the seats of a ledger."""

    ADDS = "adds"
    ADOPTS = "adopts"
    REPLACES = "replaces"


def decide(
    on: ClaimLedger | None,
    request: SeatRequest,
    *pods: LivePod,
    purpose: BookingPurpose = JOIN,
    assignment: str = "fresh",
) -> Grant | Refusal:
    return book(on, request, pods, purpose=purpose, assignment_id=assignment)


def granted(
    change: Change,
    on: ClaimLedger | None,
    request: SeatRequest,
    *pods: LivePod,
    purpose: BookingPurpose = JOIN,
    assignment: str = "fresh",
) -> Grant:
    """Decide, and check that the result is a grant that makes this change and no other."""
    decision = decide(on, request, *pods, purpose=purpose, assignment=assignment)
    assert isinstance(decision, Grant)
    before = on.seats if on is not None else ()
    changed = [new for old, new in zip(before, decision.seats, strict=False) if new is not old]
    assert own_seat(decision, request.workload).ref == SeatRef(
        request.workload, request.workload_uid, assignment
    )
    assert changed in ([], [own_seat(decision, request.workload)])
    assert decision.writes is (bool(changed) or len(decision.seats) > len(before))
    former = next((each for each in before if each.workload == request.workload), None)
    if former is None:
        assert len(decision.seats) == len(before) + 1
        assert change is Change.ADDS
    else:
        assert len(decision.seats) == len(before)
        adopts = former.workload_uid == request.workload_uid
        assert change is (Change.ADOPTS if adopts else Change.REPLACES)
    return decision


def own_seat(grant: Grant, workload: str) -> Seat:
    (own,) = [each for each in grant.seats if each.workload == workload]
    return own


def refused(decision: Grant | Refusal) -> RefusalReason | str:
    return decision.reason if isinstance(decision, Refusal) else f"not refused: {decision}"


def test_a_new_worker_adds_a_seat_after_the_others() -> None:
    grant = granted(Change.ADDS, ledger(seat("a")), seat_request("b", limit=2))
    assert names(grant.seats) == ["a", "b"]
    assert seat_document(own_seat(grant, "b")) == {
        "workload": "b",
        "workloadUID": "uid-b",
        "assignmentID": "fresh",
        "ownerID": "owner-b",
        "exclusive": False,
        "hostRequest": "2Gi",
    }


def test_own_seat_under_the_recorded_assignment_is_adopted_without_a_write() -> None:
    before = ledger(seat("a"), seat("b"))
    decision = decide(before, seat_request("b"), assignment="as-b")
    assert decision == Grant(before.seats, writes=False)


def test_own_uncommitted_seat_is_adopted_by_writing_a_fresh_assignment() -> None:
    grant = granted(Change.ADOPTS, ledger(seat("a"), seat("b"), seat("c")), seat_request("b"))
    assert names(grant.seats) == ["a", "b", "c"]
    assert grant.seats[1].assignment_id == "fresh"


def test_a_seat_under_another_assignment_is_rewritten_to_the_recorded_one() -> None:
    grant = granted(
        Change.ADOPTS,
        ledger(seat("b", assignment="other")),
        seat_request("b"),
        purpose=REPAIR,
        assignment="recorded",
    )
    assert own_seat(grant, "b").assignment_id == "recorded"


def test_adopting_adds_no_seat_and_ignores_the_limit() -> None:
    for limit in (1, 2, 3):
        granted(Change.ADOPTS, ledger(seat("a"), seat("b"), seat("c")), seat_request("b", limit=limit))


def test_exclusivity_is_checked_for_an_adopted_seat_too() -> None:
    both = ledger(seat("a"), seat("b", exclusive=True))
    assert (
        refused(decide(both, seat_request("b", exclusive=True), assignment="as-b"))
        is RefusalReason.EXCLUSIVE_WORKER
    )
    assert refused(decide(both, seat_request("a"), assignment="as-a")) is RefusalReason.EXCLUSIVE_SEAT


def test_an_exclusive_worker_adopts_its_seat_if_it_is_alone() -> None:
    granted(Change.ADOPTS, ledger(seat("a", exclusive=True)), seat_request("a", exclusive=True))


def test_the_seat_of_a_gone_predecessor_is_replaced_in_place() -> None:
    before = ledger(seat("a"), seat("b", uid="uid-old"), seat("c"))
    grant = granted(Change.REPLACES, before, seat_request("b", limit=1, gone_predecessor_uid="uid-old"))
    assert names(grant.seats) == ["a", "b", "c"]
    assert grant.seats[1].workload_uid == "uid-b"
    assert grant.seats[1].assignment_id == "fresh"
    assert (grant.seats[0], grant.seats[2]) == (before.seats[0], before.seats[2])


@pytest.mark.parametrize("gone_uid", [None, "", "uid-of-another"])
def test_the_seat_of_a_predecessor_that_may_exist_is_not_replaced(gone_uid: str | None) -> None:
    before = ledger(seat("b", uid="uid-old"))
    decision = decide(before, seat_request("b", gone_predecessor_uid=gone_uid))
    assert refused(decision) is RefusalReason.PREDECESSOR
    assert isinstance(decision, Refusal)
    assert decision.holder == before.seats[0]


def test_the_exclusive_seat_of_a_gone_predecessor_does_not_refuse() -> None:
    old = seat("b", uid="uid-old", exclusive=True)
    granted(Change.REPLACES, ledger(old), seat_request("b", exclusive=True, gone_predecessor_uid="uid-old"))


@pytest.mark.parametrize(
    ("limit", "seated", "allowed"),
    [(1, 1, False), (2, 1, True), (2, 2, False), (3, 2, True), (256, 255, True), (256, 256, False)],
)
def test_a_seat_is_added_only_below_the_limit(limit: int, seated: int, allowed: bool) -> None:
    on, request = ledger(*(seat(f"w{i}") for i in range(seated))), seat_request("new", limit=limit)
    if allowed:
        granted(Change.ADDS, on, request)
    else:
        assert refused(decide(on, request)) is RefusalReason.FULL


def test_a_full_ledger_names_the_limit_but_no_count() -> None:
    texts = {
        decision.text
        for seated in (2, 3, 4)
        if isinstance(
            decision := decide(ledger(*(seat(f"w{i}") for i in range(seated))), seat_request("n", limit=2)),
            Refusal,
        )
    }
    assert texts == {"shared claims hold at most 2 workers"}


@pytest.mark.parametrize("purpose", [JOIN, REPAIR])
def test_the_limit_applies_to_every_purpose(purpose: BookingPurpose) -> None:
    assert (
        refused(decide(ledger(seat("a"), seat("b")), seat_request("c", limit=2), purpose=purpose))
        is RefusalReason.FULL
    )


def test_a_creator_obeys_the_limit_because_it_never_takes_a_ledger_of_others() -> None:
    assert (
        refused(decide(ledger(seat("a")), seat_request("b", limit=1), purpose=CREATE))
        is RefusalReason.FOREIGN
    )


def test_a_ledger_above_the_limit_refuses_new_seats_and_keeps_all_others() -> None:
    above = ledger(seat("a"), seat("b"), seat("c"))
    assert refused(decide(above, seat_request("d", limit=2))) is RefusalReason.FULL
    for each in above.seats:
        decision = decide(above, seat_request(each.workload, limit=2), assignment=each.assignment_id)
        assert decision == Grant(above.seats, writes=False)


def test_an_exclusive_worker_is_refused_on_a_claim_of_others() -> None:
    assert (
        refused(decide(ledger(seat("a")), seat_request("b", exclusive=True)))
        is RefusalReason.EXCLUSIVE_WORKER
    )


def test_the_exclusive_seat_of_another_worker_refuses() -> None:
    decision = decide(ledger(seat("a"), seat("x", exclusive=True)), seat_request("b"))
    assert refused(decision) is RefusalReason.EXCLUSIVE_SEAT
    assert isinstance(decision, Refusal)
    assert decision.holder is not None
    assert decision.holder.workload == "x"


def test_an_empty_ledger_refuses_a_joiner() -> None:
    assert refused(decide(ledger(), seat_request("b"))) is RefusalReason.EMPTY


@pytest.mark.parametrize("purpose", [CREATE, REPAIR])
def test_an_empty_ledger_accepts_its_creator_and_a_repair(purpose: BookingPurpose) -> None:
    granted(Change.ADDS, ledger(), seat_request("b", exclusive=True, limit=1), purpose=purpose)


def test_a_missing_ledger_refuses_a_joiner() -> None:
    assert refused(decide(None, seat_request("b"))) is RefusalReason.NO_LEDGER


@pytest.mark.parametrize("purpose", [CREATE, REPAIR])
def test_a_missing_ledger_is_created_by_its_creator_or_a_repair(purpose: BookingPurpose) -> None:
    grant = granted(Change.ADDS, None, seat_request("b", limit=1), purpose=purpose)
    assert names(grant.seats) == ["b"]


def test_a_creator_continues_with_its_own_ledger_after_a_crash() -> None:
    grant = granted(
        Change.ADOPTS,
        ledger(seat("b", exclusive=True)),
        seat_request("b", exclusive=True, limit=1),
        purpose=CREATE,
    )
    assert own_seat(grant, "b").assignment_id == "fresh"


def test_a_creator_continues_with_its_own_ledger_even_if_others_joined() -> None:
    granted(Change.ADOPTS, ledger(seat("b"), seat("c")), seat_request("b"), purpose=CREATE)


@pytest.mark.parametrize("on", [None, ledger(), ledger(seat("a"))])
def test_a_creator_is_refused_a_claim_that_only_others_hold(on: ClaimLedger | None) -> None:
    assert refused(decide(on, seat_request("b"), pod("a"), purpose=CREATE)) is RefusalReason.FOREIGN


@pytest.mark.parametrize(
    ("owner", "reason"), [("uid-of-a-former-ledger", RefusalReason.DYING), ("", RefusalReason.DYING)]
)
def test_a_claim_whose_owner_is_not_its_ledger_is_dying(owner: str, reason: RefusalReason) -> None:
    assert refused(decide(ledger(seat("a")), seat_request("b", claim_owner_uid=owner))) is reason
    assert refused(decide(ledger(seat("a"), seat("b")), seat_request("b", claim_owner_uid=owner))) is reason


def test_a_claim_that_its_ledger_owns_can_be_joined() -> None:
    granted(Change.ADDS, ledger(seat("a")), seat_request("b", claim_owner_uid=LEDGER_UID))


@pytest.mark.parametrize("purpose", [JOIN, CREATE])
def test_a_terminating_ledger_refuses_joiners_and_creators(purpose: BookingPurpose) -> None:
    dying = ledger(seat("b"), deleted=True)
    assert refused(decide(dying, seat_request("b"), purpose=purpose)) is RefusalReason.DYING


def test_a_terminating_ledger_is_repaired_for_running_pods() -> None:
    granted(Change.ADDS, ledger(deleted=True), seat_request("b"), purpose=REPAIR)


# --- live Pods without a seat ---------------------------------------------------------------------


def test_a_live_pod_without_a_seat_counts_as_a_seat() -> None:
    on = ledger(seat("a"))
    assert refused(decide(on, seat_request("b", limit=2), pod("lost"))) is RefusalReason.FULL
    granted(Change.ADDS, on, seat_request("b", limit=3), pod("lost"))


def test_a_live_pod_without_a_seat_is_exclusive_if_its_worker_is() -> None:
    decision = decide(ledger(seat("a")), seat_request("b"), pod("lost", exclusive=True))
    assert refused(decision) is RefusalReason.EXCLUSIVE_SEAT


def test_an_exclusive_worker_does_not_share_with_a_live_pod_without_a_seat() -> None:
    on = ledger(seat("b", exclusive=True))
    assert (
        refused(decide(on, seat_request("b", exclusive=True), pod("lost"))) is RefusalReason.EXCLUSIVE_WORKER
    )


def test_a_pod_that_has_its_seat_is_not_counted_twice() -> None:
    granted(Change.ADDS, ledger(seat("a")), seat_request("b", limit=2), pod("a"))


def test_a_workers_own_pod_does_not_count_against_it() -> None:
    granted(
        Change.ADDS,
        ledger(),
        seat_request("b", exclusive=True, limit=1),
        pod("b", exclusive=True),
        purpose=REPAIR,
    )


def test_in_a_repair_only_pods_of_older_workloads_count() -> None:
    pods = [pod("old", created_at="2026-01-01T00:00:01Z"), pod("young", created_at="2026-01-01T00:00:02Z")]
    old = seat_request("old", limit=1, created_at="2026-01-01T00:00:01Z", recorded_assignment_id="as-old")
    young = seat_request(
        "young", limit=1, created_at="2026-01-01T00:00:02Z", recorded_assignment_id="as-young"
    )
    granted(Change.ADDS, None, old, *pods, purpose=REPAIR)
    assert refused(decide(None, young, *pods, purpose=REPAIR)) is RefusalReason.FULL


def test_in_a_repair_workloads_of_the_same_second_are_ordered_by_name() -> None:
    pods = [pod("a", created_at="t"), pod("b", created_at="t")]
    granted(Change.ADDS, None, seat_request("a", limit=1, created_at="t"), *pods, purpose=REPAIR)
    assert (
        refused(decide(None, seat_request("b", limit=1, created_at="t"), *pods, purpose=REPAIR))
        is RefusalReason.FULL
    )


def test_a_pod_of_unknown_age_counts_as_the_oldest() -> None:
    decision = decide(
        None, seat_request("b", limit=1, created_at="2026-01-01T00:00:00Z"), pod("z"), purpose=REPAIR
    )
    assert refused(decision) is RefusalReason.FULL


# --- what a write preserves --------------------------------------------------------------------


@pytest.mark.parametrize(("uid", "change"), [("uid-b", Change.ADOPTS), ("uid-old", Change.REPLACES)])
def test_unknown_fields_survive_a_rewritten_seat(uid: str, change: Change) -> None:
    unknown: dict[str, Any] = {"turn": {"weight": 3}, "note": None}
    before = ledger(seat("a", **unknown), seat("b", uid=uid, **unknown))
    grant = granted(change, before, seat_request("b", gone_predecessor_uid="uid-old"))
    assert grant.seats[0] is before.seats[0]
    assert seat_document(own_seat(grant, "b")).items() >= unknown.items()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_raises_an_error(limit: int) -> None:
    with pytest.raises(ValueError, match="effective limit"):
        seat_request("a", limit=limit)
