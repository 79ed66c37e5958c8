"""Giving seats back, and retiring what is empty, against a world that conflicts and loses answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledger.book import MAX_TRIES, Contended, Released, SeatBook
from ledger.state import ClaimLedger, SeatRef
from tests.ledger.build import CLAIM, LEDGER, ledger, pod, ref, seat
from tests.ledger.world import FakeLedgerApi, Fate, World, run, script

UNSEEN: ClaimLedger | None = None
REMAINS, RETIRED = Released(retired=False), Released(retired=True)


def seat_book(world: World, view: ClaimLedger | None) -> SeatBook:
    return SeatBook(FakeLedgerApi(world, view), lambda: "fresh")


def released(
    world: World,
    view: ClaimLedger | None,
    refs: list[SeatRef],
    *entries: tuple[str, Fate | Callable[[], object]],
) -> Released | Contended:
    return run(seat_book(world, view).release(CLAIM, refs), script(*entries))


def test_a_seat_among_others_is_one_request_from_the_cache(world: World) -> None:
    before = world.put(seat("a"), seat("b"))
    assert released(world, before, [ref("b")]) == REMAINS
    assert world.requests == ["write_seats"]
    assert world.seated == ["a"]
    assert CLAIM in world.claims


def test_the_last_seat_takes_ledger_and_claim_with_it_in_this_order(world: World) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a")]) == RETIRED
    assert world.requests == ["write_seats", "read_claim_uid", "delete", "delete_claim"]
    assert (world.ledgers, world.claims) == ({}, {})


def test_a_seat_that_the_cache_does_not_show_yet_is_not_left_behind(world: World) -> None:
    old = world.put(seat("a"))
    world.rewrite(seat("a"), seat("b"))
    assert released(world, old, [ref("b")]) == REMAINS
    assert world.seated == ["a"]


def test_a_ledger_that_the_cache_does_not_show_yet_is_not_left_behind(world: World) -> None:
    world.put(seat("a"))
    assert released(world, UNSEEN, [ref("a")]) == RETIRED
    assert world.ledgers == {}


def test_a_seat_under_another_assignment_stays(world: World) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a", assignment="former")]) == REMAINS
    assert world.seated == ["a"]
    assert world.history == []


def test_a_ledger_that_is_gone_is_the_tombstone(world: World) -> None:
    assert released(world, UNSEEN, [ref("a")]) == RETIRED
    assert released(world, ledger(seat("a")), [ref("a")]) == RETIRED
    assert not {"delete", "delete_claim"} & set(world.requests)


def test_naming_no_seat_retires_an_empty_ledger_only(world: World) -> None:
    assert released(world, world.put(seat("a")), []) == REMAINS
    assert world.seated == ["a"]
    assert released(world, world.put(), []) == RETIRED
    assert world.claims == {}


def test_a_booking_that_came_first_wins_and_keeps_the_ledger(world: World) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a")], ("delete", lambda: world.rewrite(seat("b")))) == REMAINS
    assert world.seated == ["b"]
    assert CLAIM in world.claims


def test_a_booking_between_decision_and_removal_keeps_the_ledger(world: World) -> None:
    before = world.put(seat("a"))
    joiner = ("write_seats", lambda: world.rewrite(seat("a"), seat("b")))
    assert released(world, before, [ref("a")], joiner) == REMAINS
    assert world.seated == ["b"]


def test_a_ledger_touched_but_still_empty_is_retired_on_its_new_version(world: World) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a")], ("delete", world.rewrite)) == RETIRED
    assert (world.ledgers, world.claims) == ({}, {})


def test_the_claim_of_another_founder_who_took_the_name_since_is_left_alone(world: World) -> None:
    before = world.put(seat("a"))

    def found_anew() -> None:
        world.collect_garbage()
        world.put(seat("n"), uid="uid-of-the-next", claim_uid="uid-of-the-next-claim")

    assert released(world, before, [ref("a")], ("delete_claim", found_anew)) == RETIRED
    assert world.claims == {CLAIM: ("uid-of-the-next-claim", "uid-of-the-next")}
    assert world.seated == ["n"]


def test_a_claim_that_the_ledger_does_not_own_is_left_alone(world: World) -> None:
    before = world.put(seat("a"))
    world.claims[CLAIM] = ("uid-of-claim", "uid-of-somebody")
    assert released(world, before, [ref("a")]) == RETIRED
    assert CLAIM in world.claims
    assert "delete_claim" not in world.requests


def test_a_live_pod_without_a_seat_keeps_ledger_and_claim(world: World) -> None:
    before = world.put(seat("a"))
    world.pods.append(pod("lost"))
    assert released(world, before, [ref("a")]) == REMAINS
    assert world.seated == []
    assert LEDGER in world.ledgers
    world.pods.clear()
    assert released(world, world.get(), []) == RETIRED


@pytest.mark.parametrize("fate", [Fate.LOST_APPLIED, Fate.LOST_UNAPPLIED])
@pytest.mark.parametrize("write", ["write_seats", "delete", "delete_claim"])
def test_a_lost_answer_is_read_back_and_gone_on_from(world: World, write: str, fate: Fate) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a")], (write, fate)) == RETIRED
    assert (world.ledgers, world.claims) == ({}, {})
    assert world.requests.count(write) == (2 if fate is Fate.LOST_UNAPPLIED else 1)


def test_a_claim_whose_deletion_is_never_answered_is_left_to_garbage_collection(world: World) -> None:
    before = world.put(seat("a"))
    silent = [("delete_claim", Fate.LOST_UNAPPLIED)] * (MAX_TRIES + 1)
    assert released(world, before, [ref("a")], *silent) == RETIRED
    assert world.requests.count("delete_claim") == MAX_TRIES
    world.collect_garbage()
    assert world.claims == {}


def test_a_ledger_deleted_unanswered_and_founded_anew_is_left_alone(world: World) -> None:
    before = world.put(seat("a"))
    anew = ("read", lambda: world.put(seat("n"), uid="uid-of-the-next", claim_uid="uid-of-the-next-claim"))
    outcome = released(world, before, [ref("a")], ("delete", Fate.LOST_APPLIED), anew)
    assert outcome == RETIRED
    assert world.seated == ["n"]
    assert CLAIM in world.claims


def test_another_process_may_finish_the_retirement_first(world: World) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a")], ("delete", lambda: world.ledgers.pop(LEDGER))) == RETIRED
    assert world.claims == {}


def test_a_release_gives_up_as_contended_after_five_tries(world: World) -> None:
    before = world.put(seat("a"), seat("b"))
    busy = [("write_seats", lambda: world.rewrite(seat("a"), seat("b")))] * (MAX_TRIES + 1)
    assert released(world, before, [ref("a")], *busy) == Contended(CLAIM)
    assert world.seated == ["a", "b"]


def test_a_seat_stays_whose_pod_comes_back_while_its_release_is_tried_again(world: World) -> None:
    """The create of that Pod lands late, after the read by which the caller vouched for its end."""

    def land() -> None:
        world.rewrite(seat("a"), seat("b"))
        world.pods.append(pod("a"))

    before = world.put(seat("a"), seat("b"))
    assert released(world, before, [ref("a")], ("write_seats", land)) == Contended(CLAIM)
    assert world.seated == ["a", "b"]
    world.pods.clear()
    assert released(world, world.get(), [ref("a")]) == REMAINS


def test_unknown_fields_of_the_others_survive_a_release(world: World) -> None:
    before = world.put(seat("a"), seat("b", turn={"weight": 3}))
    released(world, before, [ref("a")])
    assert world.ledgers[LEDGER]["spec"]["seats"][0]["turn"] == {"weight": 3}


def test_what_was_released_and_retired_is_counted(world: World) -> None:
    book = seat_book(world, world.put(seat("a"), seat("b")))
    run(book.release(CLAIM, [ref("a"), ref("b")]))
    assert (book.statistics().released, book.statistics().retired) == (2, 1)
