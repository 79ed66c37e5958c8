"""How long ago something happened: the wall clock is asked once, then only the monotonic clock counts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controller.reconcile.ages import Ages, Moment
from tests.controller.build import EPOCH, Clock

HOURS = timedelta(hours=11)


class Clocks:
    """A monotonic clock, and a wall clock that hands may set."""

    def __init__(self) -> None:
        self.steady = Clock()
        self.set_by = timedelta()
        self.ages = Ages(lambda: self.steady() + self.set_by, self.steady.monotonic)

    def age_seconds(
        self, *, worker: str = "uid-w", moment: Moment = Moment.POD_JUDGED, minute: float = 0
    ) -> float:
        return self.ages.since(worker, moment, EPOCH + timedelta(minutes=minute)).total_seconds()


def test_what_was_there_before_this_process_is_as_old_as_the_wall_clock_says() -> None:
    clocks = Clocks()
    clocks.steady.advance(minutes=3)
    assert clocks.age_seconds(minute=1) == 120
    clocks.steady.advance(seconds=5)
    assert clocks.age_seconds(minute=1) == 125


@pytest.mark.parametrize("set_by", [HOURS, -HOURS], ids=["forward", "back"])
def test_a_clock_that_is_set_changes_no_age(set_by: timedelta) -> None:
    clocks = Clocks()
    clocks.steady.advance(seconds=1)
    assert clocks.age_seconds() == 1
    clocks.set_by = set_by
    assert clocks.age_seconds() == 1
    clocks.steady.advance(minutes=2)
    assert clocks.age_seconds() == 121


def test_a_time_that_lies_ahead_counts_from_when_it_is_first_looked_at() -> None:
    """Another machine's clock may be ahead of ours, by hours too."""
    clocks = Clocks()
    clocks.set_by = -HOURS
    assert clocks.age_seconds() == 0
    clocks.steady.advance(minutes=2)
    assert clocks.age_seconds() == 120


def test_another_time_of_the_same_moment_is_looked_at_anew() -> None:
    clocks = Clocks()
    clocks.age_seconds()
    clocks.steady.advance(minutes=2)
    assert clocks.age_seconds(minute=2) == 0
    assert clocks.age_seconds(minute=2, moment=Moment.POD_CREATED) == 0
    assert clocks.age_seconds() == 120


def test_a_time_limit_is_over_when_what_was_left_of_it_was_waited_for() -> None:
    """Sums of floats may stay a hair below it: what is left then is too short for any timer."""
    limit, seconds = timedelta(seconds=10), 0.0
    ages = Ages(lambda: EPOCH, lambda: seconds)
    for number in range(100):
        seconds = number / 7
        ages.forget("uid-w")
        left = limit - ages.since("uid-w", Moment.POD_JUDGED, EPOCH)
        seconds += left.total_seconds()
        assert ages.since("uid-w", Moment.POD_JUDGED, EPOCH) == limit


def test_workers_and_moments_are_apart_and_a_worker_can_be_forgotten() -> None:
    clocks = Clocks()
    clocks.age_seconds(worker="uid-a", moment=Moment.POD_CREATED)
    clocks.set_by = HOURS
    assert clocks.age_seconds(worker="uid-a", moment=Moment.POD_JUDGED) == HOURS.total_seconds()
    assert clocks.age_seconds(worker="uid-b", moment=Moment.POD_CREATED) == HOURS.total_seconds()
    assert clocks.age_seconds(worker="uid-a", moment=Moment.POD_CREATED) == 0
    clocks.ages.forget("uid-a")
    assert repr(clocks.ages) == "<Ages workers=1>"
    assert clocks.age_seconds(worker="uid-a", moment=Moment.POD_CREATED) == HOURS.total_seconds()
