"""The release rules of contract §4: a release removes exactly the seats that it names."""

from __future__ import annotations

import pytest

from ledger.seat_rules import LedgerEmpty, NothingToRelease, SeatsRemain, keeps_claim, release
from ledger.state import SeatRef
from tests.ledger.build import ledger, pod, ref, seat


def test_the_named_seats_are_removed_and_the_others_are_unchanged() -> None:
    before = ledger(seat("a", note=1), seat("b"), seat("c", note=2))
    assert release(before, [ref("b")]) == SeatsRemain((ref("b"),), (before.seats[0], before.seats[2]))


def test_the_release_of_all_seats_leaves_none() -> None:
    assert release(ledger(seat("a"), seat("b")), [ref("b"), ref("a")]) == SeatsRemain(
        (ref("a"), ref("b")), ()
    )


@pytest.mark.parametrize(
    "partial",
    [
        ref("a", assignment="another"),
        ref("a", uid="another"),
        SeatRef("b", "uid-a", "as-a"),
        SeatRef("a", "", ""),
    ],
)
def test_a_partial_match_releases_nothing(partial: SeatRef) -> None:
    assert release(ledger(seat("a")), [partial]) == NothingToRelease()


def test_a_release_of_no_seats_removes_none() -> None:
    assert release(ledger(seat("a")), []) == NothingToRelease()


@pytest.mark.parametrize("named", [[], [ref("a")]])
def test_an_empty_ledger_can_be_retired(named: list[SeatRef]) -> None:
    assert release(ledger(), named) == LedgerEmpty()


def test_a_live_pod_of_another_worker_keeps_the_claim() -> None:
    assert keeps_claim([pod("lost")], [ref("a")])


def test_the_own_pod_of_a_released_worker_does_not_keep_the_claim() -> None:
    assert not keeps_claim([pod("a")], [ref("a")])
