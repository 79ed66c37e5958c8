"""A hand-off is read from the versions of the ledger that the giver left."""

from __future__ import annotations

from simulation.demo.handoff import Handoff, find_handoff
from tests.demo.build import revisions

AB, B, BC = ["a", "b"], ["b"], ["b", "c"]


def test_the_taker_is_who_comes_to_the_ledger_that_was_left() -> None:
    seen = revisions(("x", AB), ("y", ["d"]), ("x", B), ("y", ["d", "e"]), ("x", BC))

    assert find_handoff(seen, "a") == Handoff("x", "a", "c", freed_seconds=2.0, taken_seconds=4.0)


def test_a_seat_that_nobody_took_was_not_handed_off() -> None:
    assert find_handoff(revisions(("x", AB), ("x", B)), "a") is None


def test_a_seat_that_nobody_left_was_not_handed_off() -> None:
    assert find_handoff(revisions(("x", ["b"]), ("x", BC)), "a") is None


def test_a_waiter_that_moves_from_its_own_claim_to_a_seat_hands_off_the_last_that_it_left() -> None:
    seen = revisions(("own", ["a"]), ("x", AB), ("own", []), ("x", B), ("x", BC))

    assert find_handoff(seen, "a") == Handoff("x", "a", "c", freed_seconds=3.0, taken_seconds=4.0)
