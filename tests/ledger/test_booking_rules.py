"""The booking rules of contract §4, one test for each rule and refusal."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.state import ClaimLedger, seat_document
from ledger.transitions import (
    Add,
    Adopt,
    BookingPurpose,
    Grant,
    LivePod,
    Refusal,
    RefusalReason,
    Replace,
    SeatRequest,
    book,
)
from tests.ledger.build import LEDGER_UID, booking, ledger, names, pod, seat

JOIN, CREATE, REPAIR = BookingPurpose.JOIN, BookingPurpose.CREATE, BookingPurpose.REPAIR


def ask(
    on: ClaimLedger | None,
    by: SeatRequest,
    *pods: LivePod,
    purpose: BookingPurpose = JOIN,
    assignment: str = "fresh",
) -> Grant | Refusal:
    return book(on, by, pods, purpose=purpose, assignment_id=assignment)


def refused(decision: Grant | Refusal) -> RefusalReason | str:
    return decision.reason if isinstance(decision, Refusal) else f"not refused: {decision}"


def test_a_newcomer_adds_a_seat_behind_the_others() -> None:
    decision = ask(ledger(seat("a")), booking("b", limit=2))
    assert isinstance(decision, Add)
    assert names(decision.seats) == ["a", "b"]
    assert seat_document(decision.seat) == {
        "workload": "b",
        "workloadUID": "uid-b",
        "assignmentID": "fresh",
        "ownerID": "owner-b",
        "exclusive": False,
        "hostRequest": "2Gi",
    }


def test_own_seat_under_the_recorded_assignment_is_adopted_without_a_write() -> None:
    before = ledger(seat("a"), seat("b"))
    decision = ask(before, booking("b"), assignment="as-b")
    assert decision == Adopt(before.seats[1], before.seats, writes=False)


def test_own_uncommitted_seat_is_adopted_by_a_write_of_a_fresh_assignment() -> None:
    decision = ask(ledger(seat("a"), seat("b"), seat("c")), booking("b"))
    assert isinstance(decision, Adopt)
    assert decision.writes
    assert names(decision.seats) == ["a", "b", "c"]
    assert decision.seats[1].assignment_id == "fresh"


def test_a_seat_under_another_assignment_is_rewritten_to_the_recorded_one() -> None:
    decision = ask(ledger(seat("b", assignment="other")), booking("b"), purpose=REPAIR, assignment="recorded")
    assert isinstance(decision, Adopt)
    assert decision.writes
    assert decision.seat.assignment_id == "recorded"


def test_adopting_adds_no_seat_and_so_needs_no_room() -> None:
    for limit in (1, 2, 3):
        assert isinstance(ask(ledger(seat("a"), seat("b"), seat("c")), booking("b", limit=limit)), Adopt)


def test_exclusivity_is_checked_for_an_adopted_seat_too() -> None:
    both = ledger(seat("a"), seat("b", exclusive=True))
    assert (
        refused(ask(both, booking("b", exclusive=True), assignment="as-b")) is RefusalReason.EXCLUSIVE_WORKER
    )
    assert refused(ask(both, booking("a"), assignment="as-a")) is RefusalReason.EXCLUSIVE_SEAT


def test_an_exclusive_worker_adopts_its_seat_where_it_is_alone() -> None:
    assert isinstance(ask(ledger(seat("a", exclusive=True)), booking("a", exclusive=True)), Adopt)


def test_a_predecessor_that_is_gone_is_replaced_in_place() -> None:
    before = ledger(seat("a"), seat("b", uid="uid-old"), seat("c"))
    decision = ask(before, booking("b", limit=1, gone_predecessor_uid="uid-old"))
    assert isinstance(decision, Replace)
    assert decision.writes
    assert names(decision.seats) == ["a", "b", "c"]
    assert decision.seats[1].ref == decision.seat.ref
    assert decision.seat.workload_uid == "uid-b"
    assert decision.seat.assignment_id == "fresh"
    assert (decision.seats[0], decision.seats[2]) == (before.seats[0], before.seats[2])


@pytest.mark.parametrize("vouched", [None, "", "uid-of-somebody"])
def test_a_predecessor_that_nobody_vouched_for_is_not_replaced(vouched: str | None) -> None:
    before = ledger(seat("b", uid="uid-old"))
    decision = ask(before, booking("b", gone_predecessor_uid=vouched))
    assert refused(decision) is RefusalReason.PREDECESSOR
    assert isinstance(decision, Refusal)
    assert decision.holder == before.seats[0]


def test_a_predecessor_that_is_gone_stands_in_nobodys_way() -> None:
    old = seat("b", uid="uid-old", exclusive=True)
    decision = ask(ledger(old), booking("b", exclusive=True, gone_predecessor_uid="uid-old"))
    assert isinstance(decision, Replace)


@pytest.mark.parametrize(
    ("limit", "seated", "allowed"),
    [(1, 1, False), (2, 1, True), (2, 2, False), (3, 2, True), (256, 255, True), (256, 256, False)],
)
def test_a_seat_is_added_only_while_there_are_fewer_than_the_limit(
    limit: int, seated: int, allowed: bool
) -> None:
    decision = ask(ledger(*(seat(f"w{i}") for i in range(seated))), booking("new", limit=limit))
    assert isinstance(decision, Add) is allowed
    if not allowed:
        assert refused(decision) is RefusalReason.FULL


def test_a_full_ledger_names_the_limit_and_no_count() -> None:
    texts = {
        decision.text
        for seated in (2, 3, 4)
        if isinstance(
            decision := ask(ledger(*(seat(f"w{i}") for i in range(seated))), booking("n", limit=2)), Refusal
        )
    }
    assert texts == {"shared claims hold at most 2 workers"}


@pytest.mark.parametrize("purpose", [JOIN, REPAIR])
def test_the_limit_asks_whether_a_seat_is_added_never_who_called(purpose: BookingPurpose) -> None:
    assert (
        refused(ask(ledger(seat("a"), seat("b")), booking("c", limit=2), purpose=purpose))
        is RefusalReason.FULL
    )


def test_a_founder_obeys_the_limit_by_never_taking_a_ledger_that_others_hold() -> None:
    assert refused(ask(ledger(seat("a")), booking("b", limit=1), purpose=CREATE)) is RefusalReason.FOREIGN


def test_a_ledger_above_the_limit_takes_no_new_seat_and_evicts_nobody() -> None:
    above = ledger(seat("a"), seat("b"), seat("c"))
    assert refused(ask(above, booking("d", limit=2))) is RefusalReason.FULL
    for each in above.seats:
        decision = ask(above, booking(each.workload, limit=2), assignment=each.assignment_id)
        assert decision == Adopt(each, above.seats, writes=False)


def test_an_exclusive_worker_is_refused_where_anybody_sits() -> None:
    assert refused(ask(ledger(seat("a")), booking("b", exclusive=True))) is RefusalReason.EXCLUSIVE_WORKER


def test_an_exclusive_seat_of_another_worker_refuses() -> None:
    decision = ask(ledger(seat("a"), seat("x", exclusive=True)), booking("b"))
    assert refused(decision) is RefusalReason.EXCLUSIVE_SEAT
    assert isinstance(decision, Refusal)
    assert decision.holder is not None
    assert decision.holder.workload == "x"


def test_an_empty_ledger_refuses_a_joiner() -> None:
    assert refused(ask(ledger(), booking("b"))) is RefusalReason.EMPTY


@pytest.mark.parametrize("purpose", [CREATE, REPAIR])
def test_an_empty_ledger_takes_its_founder_and_a_repair(purpose: BookingPurpose) -> None:
    assert isinstance(ask(ledger(), booking("b", exclusive=True, limit=1), purpose=purpose), Add)


def test_a_missing_ledger_is_a_dying_claim_for_a_joiner() -> None:
    assert refused(ask(None, booking("b"))) is RefusalReason.NO_LEDGER


@pytest.mark.parametrize("purpose", [CREATE, REPAIR])
def test_a_missing_ledger_is_created_by_its_founder_or_a_repair(purpose: BookingPurpose) -> None:
    decision = ask(None, booking("b", limit=1), purpose=purpose)
    assert isinstance(decision, Add)
    assert names(decision.seats) == ["b"]


def test_a_founder_goes_on_from_its_own_ledger_after_a_crash() -> None:
    decision = ask(ledger(seat("b", exclusive=True)), booking("b", exclusive=True, limit=1), purpose=CREATE)
    assert isinstance(decision, Adopt)
    assert decision.seat.assignment_id == "fresh"


def test_a_founder_goes_on_from_its_own_ledger_though_others_joined() -> None:
    assert isinstance(ask(ledger(seat("b"), seat("c")), booking("b"), purpose=CREATE), Adopt)


@pytest.mark.parametrize("on", [None, ledger(), ledger(seat("a"))])
def test_a_founder_takes_no_claim_that_only_others_hold(on: ClaimLedger | None) -> None:
    assert refused(ask(on, booking("b"), pod("a"), purpose=CREATE)) is RefusalReason.FOREIGN


@pytest.mark.parametrize(
    ("owner", "reason"), [("uid-of-a-former-ledger", RefusalReason.DYING), ("", RefusalReason.DYING)]
)
def test_a_claim_whose_owner_is_not_its_ledger_is_dying(owner: str, reason: RefusalReason) -> None:
    assert refused(ask(ledger(seat("a")), booking("b", claim_owner_uid=owner))) is reason
    assert refused(ask(ledger(seat("a"), seat("b")), booking("b", claim_owner_uid=owner))) is reason


def test_a_claim_that_its_ledger_owns_is_joined() -> None:
    assert isinstance(ask(ledger(seat("a")), booking("b", claim_owner_uid=LEDGER_UID)), Add)


@pytest.mark.parametrize("purpose", [JOIN, CREATE])
def test_a_ledger_that_is_being_deleted_takes_nobody(purpose: BookingPurpose) -> None:
    dying = ledger(seat("b"), deleted=True)
    assert refused(ask(dying, booking("b"), purpose=purpose)) is RefusalReason.DYING


def test_a_ledger_that_is_being_deleted_is_repaired_for_the_pods_that_still_run() -> None:
    assert isinstance(ask(ledger(deleted=True), booking("b"), purpose=REPAIR), Add)


# --- live Pods without a seat ---------------------------------------------------------------------


def test_a_live_pod_without_a_seat_counts_as_a_seat() -> None:
    on = ledger(seat("a"))
    assert refused(ask(on, booking("b", limit=2), pod("lost"))) is RefusalReason.FULL
    assert isinstance(ask(on, booking("b", limit=3), pod("lost")), Add)


def test_a_live_pod_without_a_seat_is_an_exclusive_seat_if_its_worker_is() -> None:
    decision = ask(ledger(seat("a")), booking("b"), pod("lost", exclusive=True))
    assert refused(decision) is RefusalReason.EXCLUSIVE_SEAT


def test_an_exclusive_worker_does_not_share_with_a_live_pod_without_a_seat() -> None:
    on = ledger(seat("b", exclusive=True))
    assert refused(ask(on, booking("b", exclusive=True), pod("lost"))) is RefusalReason.EXCLUSIVE_WORKER


def test_a_pod_that_has_its_seat_is_not_counted_twice() -> None:
    assert isinstance(ask(ledger(seat("a")), booking("b", limit=2), pod("a")), Add)


def test_a_workers_own_pod_does_not_stand_in_its_way() -> None:
    decision = ask(ledger(), booking("b", exclusive=True, limit=1), pod("b", exclusive=True), purpose=REPAIR)
    assert isinstance(decision, Add)


def test_in_a_repair_only_pods_of_older_workloads_count() -> None:
    pods = [pod("old", created_at="2026-01-01T00:00:01Z"), pod("young", created_at="2026-01-01T00:00:02Z")]
    old = booking("old", limit=1, created_at="2026-01-01T00:00:01Z", recorded_assignment_id="as-old")
    young = booking("young", limit=1, created_at="2026-01-01T00:00:02Z", recorded_assignment_id="as-young")
    assert isinstance(ask(None, old, *pods, purpose=REPAIR), Add)
    assert refused(ask(None, young, *pods, purpose=REPAIR)) is RefusalReason.FULL


def test_in_a_repair_workloads_of_the_same_second_are_ordered_by_name() -> None:
    pods = [pod("a", created_at="t"), pod("b", created_at="t")]
    assert isinstance(ask(None, booking("a", limit=1, created_at="t"), *pods, purpose=REPAIR), Add)
    assert (
        refused(ask(None, booking("b", limit=1, created_at="t"), *pods, purpose=REPAIR)) is RefusalReason.FULL
    )


def test_a_pod_of_unknown_age_counts_as_older() -> None:
    decision = ask(None, booking("b", limit=1, created_at="2026-01-01T00:00:00Z"), pod("z"), purpose=REPAIR)
    assert refused(decision) is RefusalReason.FULL


# --- what a write leaves alone --------------------------------------------------------------------


@pytest.mark.parametrize("uid", ["uid-b", "uid-old"])
def test_unknown_fields_survive_a_rewritten_seat(uid: str) -> None:
    unknown: dict[str, Any] = {"turn": {"weight": 3}, "note": None}
    before = ledger(seat("a", **unknown), seat("b", uid=uid, **unknown))
    decision = ask(before, booking("b", gone_predecessor_uid="uid-old"))
    assert isinstance(decision, Adopt | Replace)
    assert decision.seats[0] is before.seats[0]
    assert seat_document(decision.seat).items() >= unknown.items()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_is_not_an_effective_one_is_a_mistake(limit: int) -> None:
    with pytest.raises(ValueError, match="effective limit"):
        booking("a", limit=limit)
