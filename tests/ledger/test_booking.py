"""Bookings with conflicts, lost answers and stale caches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from ledger.booking import MAX_TRIES, Booked, Contended, Recheck, Refused, SeatBook
from ledger.seat_rules import Refusal, RefusalReason
from ledger.state import ClaimLedger, Seat
from tests.ledger.build import CLAIM, LEDGER, ledger, pod, ref, seat, seat_request
from tests.ledger.world import FakeLedgerApi, Fate, World, run, script

NOT_CACHED: ClaimLedger | None = None


def seat_book(world: World, view: ClaimLedger | None) -> SeatBook:
    ids = count(1)
    return SeatBook(FakeLedgerApi(world, view), lambda: f"fresh-{next(ids)}")


def accept(_: ClaimLedger) -> Refusal | None:
    return None


def no_memory(_: ClaimLedger) -> Refusal | None:
    return Refusal(RefusalReason.HOST_RESOURCES, "the node has no free memory")


def reason(outcome: object) -> RefusalReason | str:
    return outcome.refusal.reason if isinstance(outcome, Refused) else f"not refused: {outcome}"


def joined(
    book: SeatBook, *entries: tuple[str, Fate | Callable[[], object]], recheck: Recheck = accept
) -> Booked | Refused | Contended:
    return run(book.join(CLAIM, seat_request("b", limit=3), recheck=recheck), script(*entries))


# --- join -----------------------------------------------------------------------------------------


def test_a_join_without_contention_costs_one_request(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book)
    assert isinstance(outcome, Booked)
    assert outcome.wrote
    assert outcome.seat.assignment_id == "fresh-1"
    assert world.requests == ["write_seats"]
    assert outcome.ledger == world.get()
    assert world.seated == ["a", "b"]


def test_a_conflict_leads_to_a_live_read_and_a_new_decision(world: World) -> None:
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


def test_after_a_conflict_the_recheck_gets_the_new_version(world: World) -> None:
    checked: list[list[str]] = []

    def recheck(now: ClaimLedger) -> Refusal | None:
        checked.append([each.workload for each in now.seats])
        return no_memory(now) if len(checked) == 2 else None

    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", lambda: world.rewrite(seat("a"), seat("c"))), recheck=recheck)
    assert reason(outcome) is RefusalReason.HOST_RESOURCES
    assert checked == [["a"], ["a", "c"]]
    assert world.seated == ["a", "c"]


def test_after_a_conflict_the_live_pods_are_checked_again(world: World) -> None:
    def appear() -> None:
        world.rewrite(seat("a"))
        world.pods.append(pod("lost", exclusive=True))

    book = seat_book(world, world.put(seat("a")))
    assert reason(joined(book, ("write_seats", appear))) is RefusalReason.EXCLUSIVE_SEAT


def test_the_recheck_refuses_before_any_write(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    assert reason(joined(book, recheck=no_memory)) is RefusalReason.HOST_RESOURCES
    assert world.requests == []


def test_the_recheck_is_skipped_for_an_existing_seat(world: World) -> None:
    book = seat_book(world, world.put(seat("b")))
    committed = seat_request("b", recorded_assignment_id="as-b")
    outcome = run(book.join(CLAIM, committed, recheck=no_memory))
    assert outcome == Booked(ledger=world.get() or ledger(), seat=seat("b"), wrote=False)
    assert world.requests == []
    assert book.statistics().adopted == 1


def test_a_booking_is_contended_after_five_tries(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    again = [("write_seats", lambda: world.rewrite(seat("a")))] * (MAX_TRIES + 1)
    assert joined(book, *again) == Contended(CLAIM)
    assert world.requests.count("write_seats") == MAX_TRIES == 5
    assert book.statistics().contended == 1


def test_the_fifth_try_can_succeed(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    again = [("write_seats", lambda: world.rewrite(seat("a")))] * (MAX_TRIES - 1)
    assert isinstance(joined(book, *again), Booked)


def test_a_ledger_deleted_during_a_join_refuses_it(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", lambda: world.ledgers.pop(LEDGER)))
    assert reason(outcome) is RefusalReason.NO_LEDGER
    assert world.ledgers == {}


def test_a_ledger_recreated_during_a_join_does_not_own_the_claim(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    request = seat_request("b", claim_owner_uid="uid-of-ledger")
    recreate = ("write_seats", lambda: world.put(seat("a"), uid="uid-of-the-next"))
    outcome = run(book.join(CLAIM, request, recheck=accept), script(recreate))
    assert reason(outcome) is RefusalReason.DYING


def test_a_refusal_of_a_joiner_needs_no_request(world: World) -> None:
    for view in (NOT_CACHED, ledger(), ledger(*(seat(name) for name in "cde"))):
        assert isinstance(joined(seat_book(world, view)), Refused)
    assert world.requests == []


# --- lost answers ---------------------------------------------------------------------------------


def test_a_write_without_an_answer_that_took_effect_is_a_booking(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", Fate.LOST_APPLIED))
    assert isinstance(outcome, Booked)
    assert outcome.wrote
    assert world.requests == ["write_seats", "read"]
    assert book.statistics().unanswered == 1


def test_a_write_without_an_answer_that_had_no_effect_is_sent_again(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    assert isinstance(joined(book, ("write_seats", Fate.LOST_UNAPPLIED)), Booked)
    assert world.requests == ["write_seats", "read", "write_seats"]
    assert world.seated == ["a", "b"]


def test_a_write_that_takes_effect_after_the_read_adds_no_second_seat(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    land = ("write_seats", world.deliver_late)
    outcome = joined(book, ("write_seats", Fate.LATE), land)
    assert isinstance(outcome, Booked)
    assert outcome.wrote
    assert outcome.seat.assignment_id == "fresh-1"
    assert world.seated == ["a", "b"]


def test_a_write_resent_by_the_client_is_recognized(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    first_copy = ("write_seats", lambda: world.rewrite(seat("a"), seat("b", assignment="fresh-1")))
    outcome = joined(book, first_copy)
    assert isinstance(outcome, Booked)
    assert outcome.wrote
    assert world.requests == ["write_seats", "read"]


def test_a_lost_answer_in_the_last_try_leads_to_a_read(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    again = [("write_seats", lambda: world.rewrite(seat("a")))] * (MAX_TRIES - 1)
    outcome = joined(book, *again, ("write_seats", Fate.LOST_APPLIED))
    assert isinstance(outcome, Booked)


def test_a_seat_that_took_effect_is_booked_even_if_the_ledger_is_full_now(world: World) -> None:
    def fill() -> None:
        now = world.get()
        assert now is not None
        world.rewrite(*now.seats, seat("x", exclusive=True))

    book = seat_book(world, world.put(seat("a")))
    outcome = joined(book, ("write_seats", Fate.LOST_APPLIED), ("read", fill))
    assert isinstance(outcome, Booked)


def test_other_errors_propagate_to_the_caller(world: World) -> None:
    def deny() -> None:
        raise PermissionError("no right to patch claimledgers")

    book = seat_book(world, world.put(seat("a")))
    with pytest.raises(PermissionError):
        joined(book, ("write_seats", deny))


def test_an_answer_without_the_seat_is_an_error(world: World) -> None:
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


def test_a_seat_released_during_its_adoption_is_not_adopted(world: World) -> None:
    full = [seat("a"), seat("c"), seat("d")]
    book = seat_book(world, world.put(seat("a"), seat("b")))
    outcome = joined(book, ("write_seats", lambda: world.rewrite(*full)))
    assert reason(outcome) is RefusalReason.FULL


def test_the_seat_of_a_predecessor_is_replaced_by_one_write(world: World) -> None:
    book = seat_book(world, world.put(seat("a"), seat("b", uid="uid-old"), seat("c")))
    request = seat_request("b", limit=1, gone_predecessor_uid="uid-old")
    assert isinstance(run(book.join(CLAIM, request, recheck=accept)), Booked)
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


# --- create ---------------------------------------------------------------------------------------


def test_one_request_creates_the_ledger_with_its_seat(world: World) -> None:
    outcome = run(seat_book(world, NOT_CACHED).create(CLAIM, seat_request("b", exclusive=True, limit=1)))
    assert isinstance(outcome, Booked)
    assert world.requests == ["create"]
    assert world.history == [("create", ("b",))]
    assert world.ledgers[LEDGER]["metadata"]["labels"]["openrl.io/claim"] == CLAIM


def test_a_creator_continues_with_its_own_ledger_that_is_not_cached(world: World) -> None:
    world.put(seat("b"))
    outcome = run(seat_book(world, NOT_CACHED).create(CLAIM, seat_request("b")))
    assert isinstance(outcome, Booked)
    assert outcome.seat.assignment_id == "fresh-1"
    assert world.requests == ["create", "read", "write_seats"]


def test_a_creator_is_refused_a_ledger_that_others_hold(world: World) -> None:
    world.put(seat("a"))
    assert reason(run(seat_book(world, NOT_CACHED).create(CLAIM, seat_request("b")))) is RefusalReason.FOREIGN
    assert world.seated == ["a"]


@pytest.mark.parametrize("fate", [Fate.LOST_APPLIED, Fate.LOST_UNAPPLIED])
def test_a_lost_answer_to_a_creator_leads_to_a_read(world: World, fate: Fate) -> None:
    outcome = run(seat_book(world, NOT_CACHED).create(CLAIM, seat_request("b")), script(("create", fate)))
    assert isinstance(outcome, Booked)
    assert outcome.seat.assignment_id == "fresh-1"
    assert world.seated == ["b"]


def test_a_creator_creates_a_ledger_deleted_between_two_tries_again(world: World) -> None:
    world.put(seat("a"))
    retired = ("read", lambda: world.ledgers.pop(LEDGER))
    assert isinstance(
        run(seat_book(world, NOT_CACHED).create(CLAIM, seat_request("b")), script(retired)), Booked
    )
    assert world.seated == ["b"]


def test_a_stale_cache_never_refuses_a_creator(world: World) -> None:
    outcome = run(seat_book(world, ledger(seat("a"))).create(CLAIM, seat_request("b")))
    assert isinstance(outcome, Booked)
    assert world.requests == ["read", "create"]


# --- repair ---------------------------------------------------------------------------------------


def test_a_lost_seat_is_booked_again_under_its_recorded_assignment(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    outcome = run(book.repair(CLAIM, seat_request("b", recorded_assignment_id="as-b")))
    assert isinstance(outcome, Booked)
    assert outcome.seat.ref == ref("b")


def test_a_seat_under_another_assignment_is_rewritten_to_the_recorded_one(world: World) -> None:
    book = seat_book(world, world.put(seat("b", assignment="other")))
    outcome = run(book.repair(CLAIM, seat_request("b", recorded_assignment_id="as-b")))
    assert isinstance(outcome, Booked)
    assert [each.ref for each in outcome.ledger.seats] == [ref("b")]


def test_a_lost_ledger_is_created_again(world: World) -> None:
    outcome = run(
        seat_book(world, NOT_CACHED).repair(CLAIM, seat_request("b", recorded_assignment_id="as-b"))
    )
    assert isinstance(outcome, Booked)
    assert world.history == [("create", ("b",))]


def test_two_repairs_of_a_lost_ledger_share_the_new_one(world: World) -> None:
    other = ("create", lambda: world.create(CLAIM, (seat("a"),)))
    request = seat_request("b", limit=2, recorded_assignment_id="as-b")
    assert isinstance(run(seat_book(world, NOT_CACHED).repair(CLAIM, request), script(other)), Booked)
    assert world.seated == ["a", "b"]


def test_only_a_live_read_refuses_a_repair(world: World) -> None:
    world.put(seat("a"))
    stale_and_full = ledger(seat("a"), seat("c"))
    request = seat_request("b", limit=2, recorded_assignment_id="as-b")
    assert isinstance(run(seat_book(world, stale_and_full).repair(CLAIM, request)), Booked)
    world.rewrite(seat("a"), seat("c"))
    assert reason(run(seat_book(world, world.get()).repair(CLAIM, request))) is RefusalReason.FULL
    assert world.seated == ["a", "c"]


def test_a_repair_runs_the_recheck(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    request = seat_request("b", recorded_assignment_id="as-b")
    assert reason(run(book.repair(CLAIM, request, recheck=no_memory))) is RefusalReason.HOST_RESOURCES


# --- statistics and results -----------------------------------------------------------------------


def test_a_seat_book_counts_its_results(world: World) -> None:
    book = seat_book(world, world.put(seat("a")))
    joined(book)
    run(book.join(CLAIM, seat_request("x", exclusive=True), recheck=accept))
    counted = book.statistics()
    assert (counted.booked, counted.refused) == (1, 1)
    assert book.statistics() == counted
    counted.booked = 99
    assert book.statistics().booked == 1


def test_a_booked_seat_is_the_seat_in_the_answer(world: World) -> None:
    before = world.put(seat("a"))
    outcome = joined(seat_book(world, before))
    assert isinstance(outcome, Booked)
    stored: Seat = outcome.ledger.seats[1]
    assert outcome.seat is stored
