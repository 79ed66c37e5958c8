"""No sequence of bookings and releases breaks the protocol, from any starting ledger."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from ledger.seat_rules import (
    BookingPurpose,
    LivePod,
    NothingToRelease,
    Refusal,
    SeatRequest,
    SeatsRemain,
    book,
    release,
)
from ledger.state import ClaimLedger, Seat, SeatRef, seat_document
from tests.ledger.build import ledger, seat, seat_request

WORKERS = st.sampled_from("abcde")
UIDS = st.sampled_from(["uid-1", "uid-2"])
ASSIGNMENTS = st.sampled_from(["as-1", "as-2", "as-3"])
MARKS = st.integers()

SEATS = st.builds(
    lambda workload, uid, assignment, exclusive, mark: seat(
        workload, uid=f"{workload}-{uid}", assignment=assignment, exclusive=exclusive, mark=mark
    ),
    WORKERS,
    UIDS,
    ASSIGNMENTS,
    st.sampled_from([False, False, False, True]),
    MARKS,
)
LEDGERS = st.lists(SEATS, unique_by=lambda each: each.workload, max_size=5).map(lambda seats: ledger(*seats))


@st.composite
def bookings(draw: st.DrawFn) -> SeatRequest:
    workload = draw(WORKERS)
    return seat_request(
        workload,
        uid=f"{workload}-{draw(UIDS)}",
        limit=draw(st.integers(1, 5)),
        exclusive=draw(st.sampled_from([False, False, True])),
        created_at=draw(st.sampled_from(["t1", "t2"])),
        gone_predecessor_uid=draw(st.sampled_from([None, f"{workload}-uid-1", f"{workload}-uid-2"])),
    )


PODS = st.lists(
    st.builds(
        lambda workload, uid, exclusive, created: LivePod(workload, f"{workload}-{uid}", exclusive, created),
        WORKERS,
        UIDS,
        st.booleans(),
        st.sampled_from(["t1", "t2"]),
    ),
    max_size=2,
)
PURPOSES = st.sampled_from(BookingPurpose)
REFS = st.builds(
    lambda workload, uid, assignment: SeatRef(workload, f"{workload}-{uid}", assignment),
    WORKERS,
    UIDS,
    ASSIGNMENTS,
)


def shares_an_exclusive_claim(seats: tuple[Seat, ...]) -> bool:
    return len(seats) > 1 and any(each.exclusive for each in seats)


@given(
    LEDGERS, st.lists(st.tuples(bookings(), PURPOSES, ASSIGNMENTS, PODS) | st.frozensets(REFS), max_size=12)
)
def test_no_sequence_exceeds_the_limit_or_shares_an_exclusive_claim(
    start: ClaimLedger,
    steps: list[tuple[SeatRequest, BookingPurpose, str, list[LivePod]] | frozenset[SeatRef]],
) -> None:
    now = start
    for step in steps:
        if isinstance(step, frozenset):
            released = release(now, step)
            after = released.seats if isinstance(released, SeatsRemain) else now.seats
            assert len(after) <= len(now.seats)
        else:
            request, purpose, assignment, pods = step
            decision = book(now, request, pods, purpose=purpose, assignment_id=assignment)
            event(f"{purpose.value}: {type(decision).__name__}")
            if isinstance(decision, Refusal):
                continue
            after = decision.seats
            assert len(after) <= max(request.seat_limit, len(now.seats))
            assert len({each.workload for each in after}) == len(after)
            assert after != now.seats or not decision.writes
            assert not (decision.writes and shares_an_exclusive_claim(after))
        now = ledger(*after)


@given(LEDGERS, bookings(), PURPOSES, ASSIGNMENTS)
def test_a_booking_changes_only_its_own_seat(
    before: ClaimLedger, request: SeatRequest, purpose: BookingPurpose, assignment: str
) -> None:
    decision = book(before, request, (), purpose=purpose, assignment_id=assignment)
    if isinstance(decision, Refusal):
        return
    kept = [seat_document(each) for each in before.seats if each.workload != request.workload]
    assert [seat_document(each) for each in decision.seats if each.workload != request.workload] == kept
    own = [each for each in decision.seats if each.workload == request.workload]
    assert [each.ref for each in own] == [SeatRef(request.workload, request.workload_uid, assignment)]


@given(LEDGERS, st.frozensets(REFS, max_size=8), st.data())
def test_a_release_removes_exactly_the_named_seats(
    before: ClaimLedger, more: frozenset[SeatRef], data: st.DataObject
) -> None:
    present = st.sampled_from(before.seats).map(lambda each: each.ref) if before.seats else REFS
    named = more | data.draw(st.frozensets(present))
    released = release(before, named)
    if isinstance(released, SeatsRemain):
        assert released.seats == tuple(each for each in before.seats if each.ref not in named)
        assert set(released.removed) == {each.ref for each in before.seats} & named
        assert released.removed
    else:
        assert not {each.ref for each in before.seats} & named
        assert isinstance(released, NothingToRelease) is bool(before.seats)


@given(LEDGERS, bookings(), ASSIGNMENTS)
def test_a_granted_booking_is_granted_again_without_a_write(
    before: ClaimLedger, request: SeatRequest, assignment: str
) -> None:
    first = book(before, request, (), purpose=BookingPurpose.REPAIR, assignment_id=assignment)
    if isinstance(first, Refusal):
        return
    again = book(ledger(*first.seats), request, (), purpose=BookingPurpose.REPAIR, assignment_id=assignment)
    assert not isinstance(again, Refusal)
    assert (again.writes, again.seats) == (False, first.seats)
