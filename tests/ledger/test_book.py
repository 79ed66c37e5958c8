"""Booking against a world that conflicts, loses answers and shows old caches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from ledger.book import MAX_TRIES, Booked, Contended, Recheck, Refused, SeatBook
from ledger.state import ClaimLedger, Seat
from ledger.transitions import Refusal, RefusalReason
from tests.ledger.build import CLAIM, LEDGER, booking, ledger, pod, ref, seat
from tests.ledger.world import FakeLedgerApi, Fate, World, run, script

UNSEEN: ClaimLedger | None = None


def seat_book(world: World, view: ClaimLedger | None) -> SeatBook:
    ids = count(1)
    return SeatBook(FakeLedgerApi(world, view), lambda: f"fresh-{next(ids)}")


def fine(_: ClaimLedger) -> Refusal | None:
    return None


def no_room(_: ClaimLedger) -> Refusal | None:
    return Refusal(RefusalReason.HOST_RESOURCES, "the node has no memory left")


def reason(outcome: object) -> RefusalReason | str:
    return outcome.refusal.reason if isinstance(outcome, Refused) else f"not refused: {outcome}"


def joined(
    book: SeatBook, *entries: tuple[str, Fate | Callable[[], object]], recheck: Recheck = fine
) -> Booked | Refused | Contended:
    return run(book.join(CLAIM, booking("b", limit=3), recheck=recheck), script(*entries))


# --- join -----------------------------------------------------------------------------------------


def test_an_undisturbed_join_is_one_request_from_the_cache(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book)
    assert isinstance(outcome, Booked)
    assert outcome.wrote
    assert outcome.seat.assignment_id == "fresh-1"
    assert world.requests == ["write_seats"]
    assert outcome.ledger == world.get()
    assert world.seated == ["a", "b"]


def test_a_conflict_is_read_again_and_decided_again(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", lambda: world.rewrite(seat("a"), seat("c"))))
    assert isinstance(outcome, Booked)
    assert world.seated == ["a", "c", "b"]
    assert world.requests == ["write_seats", "read", "write_seats"]
    assert book.statistics().conflicts == 1


def test_after_a_conflict_the_limit_is_checked_again(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", lambda: world.rewrite(seat("a"), seat("c"), seat("d"))))
    assert reason(outcome) is RefusalReason.FULL
    assert world.seated == ["a", "c", "d"]


def test_after_a_conflict_exclusivity_is_checked_again(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", lambda: world.rewrite(seat("x", exclusive=True))))
    assert reason(outcome) is RefusalReason.EXCLUSIVE_SEAT


def test_after_a_conflict_the_callers_check_is_asked_about_the_new_version(world: World) -> None:
    asked: list[list[str]] = []

    def recheck(now: ClaimLedger) -> Refusal | None:
        asked.append([each.workload for each in now.seats])
        return no_room(now) if len(asked) == 2 else None

    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", lambda: world.rewrite(seat("a"), seat("c"))), recheck=recheck)
    assert reason(outcome) is RefusalReason.HOST_RESOURCES
    assert asked == [["a"], ["a", "c"]]
    assert world.seated == ["a", "c"]


def test_after_a_conflict_the_live_pods_are_looked_at_again(world: World) -> None:
    def appear() -> None:
        world.rewrite(seat("a"))
        world.pods.append(pod("lost", exclusive=True))

    book = seat_book(world, world.put(seat("a")))
    assert reason(joined(book, ("write_seats", appear))) is RefusalReason.EXCLUSIVE_SEAT


def test_the_callers_check_refuses_before_anything_is_written(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    assert reason(joined(book, recheck=no_room)) is RefusalReason.HOST_RESOURCES
    assert world.requests == []


def test_the_callers_check_is_not_asked_about_a_seat_that_stands(world: World) -> None:
    book = seat_book(world, world.put(seat("b")))
    committed = booking("b", recorded_assignment_id="as-b")
    outcome = run(book.join(CLAIM, committed, recheck=no_room))
    assert outcome == Booked(ledger=world.get() or ledger(), seat=seat("b"), wrote=False)
    assert world.requests == []
    assert book.statistics().adopted == 1


def test_a_booking_gives_up_as_contended_after_five_tries(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    again = [("write_seats", lambda: world.rewrite(seat("a")))] * (MAX_TRIES + 1)
    assert joined(book, *again) == Contended(CLAIM)
    assert world.requests.count("write_seats") == MAX_TRIES == 5
    assert book.statistics().contended == 1


def test_the_fifth_try_may_still_succeed(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    again = [("write_seats", lambda: world.rewrite(seat("a")))] * (MAX_TRIES - 1)
    assert isinstance(joined(book, *again), Booked)


def test_a_ledger_that_goes_while_it_is_joined_is_a_dying_claim(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", lambda: world.ledgers.pop(LEDGER)))
    assert reason(outcome) is RefusalReason.NO_LEDGER
    assert world.ledgers == {}


def test_a_ledger_that_was_recreated_while_it_is_joined_does_not_own_the_claim(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    request = booking("b", claim_owner_uid="uid-of-ledger")
    recreate = ("write_seats", lambda: world.put(seat("a"), uid="uid-of-the-next"))
    outcome = run(book.join(CLAIM, request, recheck=fine), script(recreate))
    assert reason(outcome) is RefusalReason.DYING


def test_a_joiner_is_refused_by_the_cache_without_a_request(world: World) -> None:
    for view in (UNSEEN, ledger(), ledger(*(seat(name) for name in "cde"))):
        assert isinstance(joined(seat_book(world, view)), Refused)
    assert world.requests == []


# --- lost answers ---------------------------------------------------------------------------------


def test_a_lost_answer_whose_seat_is_there_is_a_booking(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", Fate.LOST_APPLIED))
    assert isinstance(outcome, Booked)
    assert outcome.wrote
    assert world.requests == ["write_seats", "read"]
    assert book.statistics().unanswered == 1


def test_a_lost_answer_whose_seat_is_not_there_is_sent_again(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    assert isinstance(joined(book, ("write_seats", Fate.LOST_UNAPPLIED)), Booked)
    assert world.requests == ["write_seats", "read", "write_seats"]
    assert world.seated == ["a", "b"]


def test_a_write_that_lands_after_it_was_read_back_seats_nobody_twice(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    land = ("write_seats", world.deliver_late)
    outcome = joined(book, ("write_seats", Fate.LATE), land)
    assert isinstance(outcome, Booked)
    assert outcome.wrote
    assert outcome.seat.assignment_id == "fresh-1"
    assert world.seated == ["a", "b"]


def test_a_write_sent_twice_beneath_the_port_is_known_again_as_ours(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    first_copy = ("write_seats", lambda: world.rewrite(seat("a"), seat("b", assignment="fresh-1")))
    outcome = joined(book, first_copy)
    assert isinstance(outcome, Booked)
    assert outcome.wrote
    assert world.requests == ["write_seats", "read"]


def test_the_answer_lost_in_the_last_try_is_read_back_too(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    again = [("write_seats", lambda: world.rewrite(seat("a")))] * (MAX_TRIES - 1)
    outcome = joined(book, *again, ("write_seats", Fate.LOST_APPLIED))
    assert isinstance(outcome, Booked)


def test_a_seat_that_landed_is_booked_though_the_ledger_has_filled_up_since(world: World) -> None:
    def fill() -> None:
        now = world.get()
        assert now is not None
        world.rewrite(*now.seats, seat("x", exclusive=True))

    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", Fate.LOST_APPLIED), ("read", fill))
    assert isinstance(outcome, Booked)


def test_anything_else_that_goes_wrong_is_the_callers(world: World) -> None:
    def refuse() -> None:
        raise PermissionError("no right to patch claimledgers")

    book = seat_book(world, world.put(seat("a")))
    with pytest.raises(PermissionError):
        joined(book, ("write_seats", refuse))


def test_an_answer_without_the_seat_is_never_taken_for_a_booking(world: World) -> None:
    class Forgetful(FakeLedgerApi):
        async def write_seats(self, ledger: ClaimLedger, seats: object) -> ClaimLedger:
            del seats
            return ledger

    book = SeatBook(Forgetful(world, world.put(seat("a"))), lambda: "fresh")
    with pytest.raises(AssertionError, match="does not show it"):
        joined(book)


# --- adopt and replace ----------------------------------------------------------------------------


def test_an_uncommitted_seat_is_adopted_under_a_fresh_assignment(world: World) -> None:
    book = seat_book(world, world.put(seat("a"), seat("b")))
    outcome = joined(book)
    assert isinstance(outcome, Booked)
    assert outcome.wrote
    assert outcome.seat.assignment_id == "fresh-1"
    assert world.seated == ["a", "b"]


def test_a_seat_given_back_while_it_is_adopted_is_not_adopted(world: World) -> None:
    full = [seat("a"), seat("c"), seat("d")]
    book = seat_book(world, world.put(seat("a"), seat("b")))
    outcome = joined(book, ("write_seats", lambda: world.rewrite(*full)))
    assert reason(outcome) is RefusalReason.FULL


def test_the_seat_that_a_predecessor_left_is_replaced_by_one_write(world: World) -> None:
    book = seat_book(world, world.put(seat("a"), seat("b", uid="uid-old"), seat("c")))
    request = booking("b", limit=1, gone_predecessor_uid="uid-old")
    assert isinstance(run(book.join(CLAIM, request, recheck=fine)), Booked)
    assert world.seated == ["a", "b", "c"]
    stored = world.get()
    assert stored is not None
    assert stored.holds(ref("b", assignment="fresh-1"))


def test_unknown_fields_survive_a_booking_on_the_server(world: World) -> None:
    before = world.put(seat("a", turn={"weight": 3}, note=None))
    world.ledgers[LEDGER]["spec"]["revision"] = {"by": "later"}
    joined(seat_book(world, before))
    spec = world.ledgers[LEDGER]["spec"]
    assert spec["revision"] == {"by": "later"}
    assert (spec["seats"][0]["turn"], spec["seats"][0]["note"]) == ({"weight": 3}, None)


# --- found ----------------------------------------------------------------------------------------


def test_founding_is_one_request_that_creates_the_ledger_with_its_seat(world: World) -> None:
    outcome = run(seat_book(world, UNSEEN).create(CLAIM, booking("b", exclusive=True, limit=1)))
    assert isinstance(outcome, Booked)
    assert world.requests == ["create"]
    assert world.history == [("create", ("b",))]
    assert world.ledgers[LEDGER]["metadata"]["labels"]["openrl.io/claim"] == CLAIM


def test_a_founder_goes_on_from_its_own_ledger_that_the_cache_does_not_show(world: World) -> None:
    world.put(seat("b"))
    outcome = run(seat_book(world, UNSEEN).create(CLAIM, booking("b")))
    assert isinstance(outcome, Booked)
    assert outcome.seat.assignment_id == "fresh-1"
    assert world.requests == ["create", "read", "write_seats"]


def test_a_founder_is_told_that_others_hold_a_ledger_of_this_name(world: World) -> None:
    world.put(seat("a"))
    assert reason(run(seat_book(world, UNSEEN).create(CLAIM, booking("b")))) is RefusalReason.FOREIGN
    assert world.seated == ["a"]


@pytest.mark.parametrize("fate", [Fate.LOST_APPLIED, Fate.LOST_UNAPPLIED])
def test_a_lost_answer_to_a_founder_is_read_back(world: World, fate: Fate) -> None:
    outcome = run(seat_book(world, UNSEEN).create(CLAIM, booking("b")), script(("create", fate)))
    assert isinstance(outcome, Booked)
    assert outcome.seat.assignment_id == "fresh-1"
    assert world.seated == ["b"]


def test_a_founder_whose_ledger_goes_in_between_creates_it_again(world: World) -> None:
    world.put(seat("a"))
    retired = ("read", lambda: world.ledgers.pop(LEDGER))
    assert isinstance(run(seat_book(world, UNSEEN).create(CLAIM, booking("b")), script(retired)), Booked)
    assert world.seated == ["b"]


def test_a_founder_is_never_refused_by_an_old_cache(world: World) -> None:
    outcome = run(seat_book(world, ledger(seat("a"))).create(CLAIM, booking("b")))
    assert isinstance(outcome, Booked)
    assert world.requests == ["read", "create"]


# --- repair ---------------------------------------------------------------------------------------


def test_a_vanished_seat_is_booked_again_under_its_recorded_assignment(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = run(book.repair(CLAIM, booking("b", recorded_assignment_id="as-b")))
    assert isinstance(outcome, Booked)
    assert outcome.seat.ref == ref("b")


def test_a_seat_under_another_assignment_is_rewritten_to_the_recorded_one(world: World) -> None:
    book = seat_book(world, world.put(seat("b", assignment="other")))
    outcome = run(book.repair(CLAIM, booking("b", recorded_assignment_id="as-b")))
    assert isinstance(outcome, Booked)
    assert [each.ref for each in outcome.ledger.seats] == [ref("b")]


def test_a_vanished_ledger_is_created_again(world: World) -> None:
    outcome = run(seat_book(world, UNSEEN).repair(CLAIM, booking("b", recorded_assignment_id="as-b")))
    assert isinstance(outcome, Booked)
    assert world.history == [("create", ("b",))]


def test_two_repairs_of_a_vanished_ledger_share_the_new_one(world: World) -> None:
    other = ("create", lambda: world.create(CLAIM, (seat("a"),)))
    request = booking("b", limit=2, recorded_assignment_id="as-b")
    assert isinstance(run(seat_book(world, UNSEEN).repair(CLAIM, request), script(other)), Booked)
    assert world.seated == ["a", "b"]


def test_a_repair_is_refused_only_by_a_fresh_read(world: World) -> None:
    world.put(seat("a"))
    old_and_full = ledger(seat("a"), seat("c"))
    request = booking("b", limit=2, recorded_assignment_id="as-b")
    assert isinstance(run(seat_book(world, old_and_full).repair(CLAIM, request)), Booked)
    world.rewrite(seat("a"), seat("c"))
    assert reason(run(seat_book(world, world.get()).repair(CLAIM, request))) is RefusalReason.FULL
    assert world.seated == ["a", "c"]


def test_a_repair_asks_the_callers_check_too(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    request = booking("b", recorded_assignment_id="as-b")
    assert reason(run(book.repair(CLAIM, request, recheck=no_room))) is RefusalReason.HOST_RESOURCES


# --- what it says of itself -----------------------------------------------------------------------


def test_a_seat_book_counts_and_says_what_it_did(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    joined(book)
    run(book.join(CLAIM, booking("x", exclusive=True), recheck=fine))
    assert repr(book) == "<SeatBook booked=1 adopted=0 refused=1 contended=0 released=0 retired=0>"
    counted = book.statistics()
    counted.booked = 99
    assert book.statistics().booked == 1


def test_a_booked_seat_is_the_servers_not_the_one_that_was_sent(world: World) -> None:
    before = world.put(seat("a"))
    outcome = joined(seat_book(world, before))
    assert isinstance(outcome, Booked)
    stored: Seat = outcome.ledger.seats[1]
    assert outcome.seat is stored
