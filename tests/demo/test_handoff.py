"""Hand-offs are found in the revisions of the ledger on which the departing worker had a seat."""

from __future__ import annotations

from simulation.demo.handoff import Handoff, find_handoff
from tests.demo.build import revisions

AB, B, BC = ["a", "b"], ["b"], ["b", "c"]


def test_the_successor_is_the_next_worker_on_the_same_ledger() -> None:
    seen = revisions(("x", AB), ("y", ["d"]), ("x", B), ("y", ["d", "e"]), ("x", BC))

    assert find_handoff(seen, "a") == Handoff("x", "a", "c", freed_seconds=2.0, booked_seconds=4.0)


def test_a_seat_that_is_not_booked_again_is_no_hand_off() -> None:
    assert find_handoff(revisions(("x", AB), ("x", B)), "a") is None


def test_a_seat_that_was_never_freed_is_no_hand_off() -> None:
    assert find_handoff(revisions(("x", ["b"]), ("x", BC)), "a") is None


def test_a_worker_that_moved_to_a_shared_claim_hands_off_its_last_seat() -> None:
    seen = revisions(("own", ["a"]), ("x", AB), ("own", []), ("x", B), ("x", BC))

    assert find_handoff(seen, "a") == Handoff("x", "a", "c", freed_seconds=3.0, booked_seconds=4.0)
