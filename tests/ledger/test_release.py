"""Releases, and the retirement of empty ledgers, with conflicts and lost answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledger.booking import MAX_TRIES, Contended, Released, SeatBook
from ledger.state import ClaimLedger, SeatRef
from tests.ledger.build import CLAIM, LEDGER, ledger, pod, ref, seat
from tests.ledger.world import FakeLedgerApi, Fate, World, run, script

NOT_CACHED: ClaimLedger | None = None
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


def test_the_release_of_one_seat_of_several_costs_one_request(world: World) -> None:
    before = world.put(seat("a"), seat("b"))
    assert released(world, before, [ref("b")]) == REMAINS
    assert world.requests == ["write_seats"]
    assert world.seated == ["a"]
    assert CLAIM in world.claims


def test_the_release_of_the_last_seat_deletes_the_ledger_and_then_the_claim(world: World) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a")]) == RETIRED
    assert world.requests == ["write_seats", "read_claim_uid", "delete", "delete_claim"]
    assert (world.ledgers, world.claims) == ({}, {})


def test_a_seat_that_is_not_cached_yet_is_released(world: World) -> None:
    old = world.put(seat("a"))
    world.rewrite(seat("a"), seat("b"))
    assert released(world, old, [ref("b")]) == REMAINS
    assert world.seated == ["a"]


def test_a_ledger_that_is_not_cached_yet_is_retired(world: World) -> None:
    world.put(seat("a"))
    assert released(world, NOT_CACHED, [ref("a")]) == RETIRED
    assert world.ledgers == {}


def test_a_seat_under_another_assignment_stays(world: World) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a", assignment="former")]) == REMAINS
    assert world.seated == ["a"]
    assert world.history == []


def test_a_missing_ledger_means_that_the_release_is_done(world: World) -> None:
    assert released(world, NOT_CACHED, [ref("a")]) == RETIRED
    assert released(world, ledger(seat("a")), [ref("a")]) == RETIRED
    assert not {"delete", "delete_claim"} & set(world.requests)


def test_a_release_of_no_seats_retires_only_an_empty_ledger(world: World) -> None:
    assert released(world, world.put(seat("a")), []) == REMAINS
    assert world.seated == ["a"]
    assert released(world, world.put(), []) == RETIRED
    assert world.claims == {}


def test_a_booking_before_the_deletion_keeps_the_ledger(world: World) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a")], ("delete", lambda: world.rewrite(seat("b")))) == REMAINS
    assert world.seated == ["b"]
    assert CLAIM in world.claims


def test_a_booking_before_the_removal_keeps_the_ledger(world: World) -> None:
    before = world.put(seat("a"))
    joiner = ("write_seats", lambda: world.rewrite(seat("a"), seat("b")))
    assert released(world, before, [ref("a")], joiner) == REMAINS
    assert world.seated == ["b"]


def test_a_changed_ledger_that_is_still_empty_is_retired_on_its_new_version(world: World) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a")], ("delete", world.rewrite)) == RETIRED
    assert (world.ledgers, world.claims) == ({}, {})


def test_the_claim_of_a_later_creator_with_the_same_name_is_kept(world: World) -> None:
    before = world.put(seat("a"))

    def create_again() -> None:
        world.collect_garbage()
        world.put(seat("n"), uid="uid-of-the-next", claim_uid="uid-of-the-next-claim")

    assert released(world, before, [ref("a")], ("delete_claim", create_again)) == RETIRED
    assert world.claims == {CLAIM: ("uid-of-the-next-claim", "uid-of-the-next")}
    assert world.seated == ["n"]


def test_a_claim_that_the_ledger_does_not_own_is_kept(world: World) -> None:
    before = world.put(seat("a"))
    world.claims[CLAIM] = ("uid-of-claim", "uid-of-another")
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
def test_a_release_continues_after_a_lost_answer(world: World, write: str, fate: Fate) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a")], (write, fate)) == RETIRED
    assert (world.ledgers, world.claims) == ({}, {})
    assert world.requests.count(write) == (2 if fate is Fate.LOST_UNAPPLIED else 1)


def test_a_claim_deletion_without_an_answer_is_left_to_garbage_collection(world: World) -> None:
    before = world.put(seat("a"))
    unanswered = [("delete_claim", Fate.LOST_UNAPPLIED)] * (MAX_TRIES + 1)
    assert released(world, before, [ref("a")], *unanswered) == RETIRED
    assert world.requests.count("delete_claim") == MAX_TRIES
    world.collect_garbage()
    assert world.claims == {}


def test_a_ledger_created_again_after_an_unanswered_deletion_is_kept(world: World) -> None:
    before = world.put(seat("a"))
    again = ("read", lambda: world.put(seat("n"), uid="uid-of-the-next", claim_uid="uid-of-the-next-claim"))
    outcome = released(world, before, [ref("a")], ("delete", Fate.LOST_APPLIED), again)
    assert outcome == RETIRED
    assert world.seated == ["n"]
    assert CLAIM in world.claims


def test_another_process_can_finish_the_retirement_first(world: World) -> None:
    before = world.put(seat("a"))
    assert released(world, before, [ref("a")], ("delete", lambda: world.ledgers.pop(LEDGER))) == RETIRED
    assert world.claims == {}


def test_a_release_is_contended_after_five_tries(world: World) -> None:
    before = world.put(seat("a"), seat("b"))
    conflicts = [("write_seats", lambda: world.rewrite(seat("a"), seat("b")))] * (MAX_TRIES + 1)
    assert released(world, before, [ref("a")], *conflicts) == Contended(CLAIM)
    assert world.seated == ["a", "b"]


def test_a_seat_stays_if_its_pod_appears_while_the_release_is_retried(world: World) -> None:
    """The request that creates the Pod takes effect late, after the live read of the caller."""

    def create_late() -> None:
        world.rewrite(seat("a"), seat("b"))
        world.pods.append(pod("a"))

    before = world.put(seat("a"), seat("b"))
    assert released(world, before, [ref("a")], ("write_seats", create_late)) == Contended(CLAIM)
    assert world.seated == ["a", "b"]
    world.pods.clear()
    assert released(world, world.get(), [ref("a")]) == REMAINS


def test_unknown_fields_of_other_seats_survive_a_release(world: World) -> None:
    before = world.put(seat("a"), seat("b", turn={"weight": 3}))
    released(world, before, [ref("a")])
    assert world.ledgers[LEDGER]["spec"]["seats"][0]["turn"] == {"weight": 3}


def test_released_seats_and_retired_ledgers_are_counted(world: World) -> None:
    book = seat_book(world, world.put(seat("a"), seat("b")))
    run(book.release(CLAIM, [ref("a"), ref("b")]))
    assert (book.statistics().released, book.statistics().retired) == (2, 1)
