"""The release rules of contract §4: exactly what is named, and nothing by name alone."""

from __future__ import annotations

import pytest

from ledger.state import SeatRef
from ledger.transitions import LedgerEmpty, NothingToRelease, SeatsRemain, keeps_claim, release
from tests.ledger.build import ledger, pod, ref, seat


def test_the_named_seats_go_and_the_others_stay_as_they_were() -> None:
    before = ledger(seat("a", note=1), seat("b"), seat("c", note=2))
    assert release(before, [ref("b")]) == SeatsRemain((ref("b"),), (before.seats[0], before.seats[2]))


def test_the_last_seat_leaves_nothing() -> None:
    assert release(ledger(seat("a"), seat("b")), [ref("b"), ref("a")]) == SeatsRemain(
        (ref("a"), ref("b")), ()
    )


@pytest.mark.parametrize(
    "near_miss",
    [
        ref("a", assignment="another"),
        ref("a", uid="another"),
        SeatRef("b", "uid-a", "as-a"),
        SeatRef("a", "", ""),
    ],
)
def test_nothing_is_released_by_a_part_of_its_name(near_miss: SeatRef) -> None:
    assert release(ledger(seat("a")), [near_miss]) == NothingToRelease()


def test_naming_nothing_releases_nothing() -> None:
    assert release(ledger(seat("a")), []) == NothingToRelease()


@pytest.mark.parametrize("named", [[], [ref("a")]])
def test_a_ledger_that_is_empty_already_may_be_retired(named: list[SeatRef]) -> None:
    assert release(ledger(), named) == LedgerEmpty()


def test_a_live_pod_of_somebody_else_keeps_the_claim() -> None:
    assert keeps_claim([pod("lost")], [ref("a")])


def test_the_released_workers_own_pod_does_not_keep_the_claim() -> None:
    assert not keeps_claim([pod("a")], [ref("a")])
