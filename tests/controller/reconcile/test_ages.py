"""How long ago something happened: the wall clock is asked once, then only the monotonic clock counts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controller.api.core import Pod
from controller.reconcile.ages import Ages, Milestone
from tests.controller.build import EPOCH, Clock, at, pod, unscheduled, workload

WORKER = workload("w")
HOURS = timedelta(hours=11)
NEVER_SEEN = "<Ages workers=0 waiting=0>"


class Clocks:
    """A monotonic clock, and a wall clock that hands may set."""

    def __init__(self, set_by: timedelta = timedelta()) -> None:
        self.steady = Clock()
        self.set_by = set_by
        self.ages = Ages(lambda: self.steady() + self.set_by, self.steady.monotonic)

    def age_seconds(
        self, refused: Pod, moment: Milestone = Milestone.POD_SCHEDULED_CHANGED, worker: str = "w"
    ) -> float:
        age = self.ages.age(moment, workload(worker), refused)
        assert age is not None
        return age.total_seconds()


def refused(minute: float = 0) -> Pod:
    return pod("w", status=unscheduled(since=at(minutes=minute)), meta={"creationTimestamp": at()})


def test_what_was_there_before_this_process_is_as_old_as_the_wall_clock_says() -> None:
    clocks = Clocks()
    clocks.steady.advance(minutes=3)
    assert clocks.age_seconds(refused(1)) == 120
    clocks.steady.advance(seconds=5)
    assert clocks.age_seconds(refused(1)) == 125


@pytest.mark.parametrize("set_by", [HOURS, -HOURS], ids=["forward", "back"])
def test_a_clock_that_is_set_changes_no_age(set_by: timedelta) -> None:
    clocks = Clocks()
    clocks.steady.advance(seconds=1)
    assert clocks.age_seconds(refused()) == 1
    clocks.set_by = set_by
    assert clocks.age_seconds(refused()) == 1
    clocks.steady.advance(minutes=2)
    assert clocks.age_seconds(refused()) == 121


def test_a_time_that_lies_ahead_counts_from_when_it_is_first_looked_at() -> None:
    """Another machine's clock may be ahead of ours, by hours too."""
    clocks = Clocks(-HOURS)
    assert clocks.age_seconds(refused()) == 0
    clocks.steady.advance(minutes=2)
    assert clocks.age_seconds(refused()) == 120


def test_a_worker_that_came_while_this_process_watched_is_no_older_than_that() -> None:
    clocks = Clocks(HOURS)
    clocks.ages.restart(WORKER.uid)
    clocks.steady.advance(seconds=2)
    assert clocks.age_seconds(refused(), Milestone.WAIT_STARTED) == 2
    assert clocks.age_seconds(refused(), Milestone.POD_CREATED) == 2


def test_a_worker_that_waits_anew_is_no_older_than_that() -> None:
    """A standby process looks at nobody, and sees all that is written."""
    clocks = Clocks(HOURS)
    clocks.ages.restart(WORKER.uid)
    clocks.steady.advance(minutes=60)
    clocks.ages.restart(WORKER.uid)
    clocks.steady.advance(seconds=2)
    assert clocks.age_seconds(refused(), Milestone.WAIT_STARTED) == 2


def test_what_happened_after_the_last_look_is_no_older_than_that() -> None:
    clocks = Clocks(HOURS)
    clocks.ages.observe(WORKER, None)
    clocks.steady.advance(seconds=7)
    clocks.ages.observe(WORKER, refused())
    clocks.steady.advance(seconds=30)
    assert clocks.age_seconds(refused()) == 37, "it came between the looks"
    clocks.ages.observe(WORKER, refused(0.5))
    clocks.steady.advance(seconds=1)
    assert clocks.age_seconds(refused(0.5)) == 31


def test_a_look_takes_in_every_moment_for_who_asks_later() -> None:
    clocks = Clocks()
    ending = pod(
        "w",
        status=unscheduled(),
        meta={"deletionTimestamp": at(seconds=30), "deletionGracePeriodSeconds": 30},
    )
    clocks.ages.observe(WORKER, ending)
    clocks.set_by = HOURS
    clocks.steady.advance(minutes=1)
    assert {moment: clocks.age_seconds(ending, moment) for moment in Milestone} == dict.fromkeys(
        Milestone, 60
    )


def test_the_end_of_a_pod_was_asked_for_its_grace_period_before_its_deletion_time() -> None:
    clocks = Clocks()
    clocks.steady.advance(seconds=45)
    ending = pod("w", meta={"deletionTimestamp": at(seconds=60), "deletionGracePeriodSeconds": 30})
    assert clocks.age_seconds(ending, Milestone.POD_DELETION_REQUESTED) == 15


def test_what_happens_again_is_new_although_its_writers_clock_was_set_back() -> None:
    clocks = Clocks()
    clocks.steady.advance(minutes=10)
    clocks.ages.observe(WORKER, refused(9))
    clocks.steady.advance(seconds=3)
    clocks.ages.observe(WORKER, refused(2))
    clocks.steady.advance(seconds=1)
    assert clocks.age_seconds(refused(2)) == 4


def test_what_the_objects_do_not_say_has_no_age() -> None:
    ages = Clocks().ages
    assert {moment for moment in Milestone if ages.age(moment, WORKER, None) is None} == {
        Milestone.POD_CREATED,
        Milestone.POD_SCHEDULED_CHANGED,
        Milestone.POD_DELETION_REQUESTED,
    }
    undated = pod("w", status={"conditions": [{"type": "PodScheduled", "status": "False"}]})
    assert ages.age(Milestone.POD_SCHEDULED_CHANGED, WORKER, undated) is None


def test_a_time_limit_is_over_when_what_was_left_of_it_was_waited_for() -> None:
    """Sums of floats may stay a hair below it: what is left then is too short for any timer."""
    limit, seconds = timedelta(seconds=10), 0.0
    ages = Ages(lambda: EPOCH, lambda: seconds)
    for number in range(100):
        seconds = number / 7
        ages.forget(WORKER.uid)
        age = ages.age(Milestone.POD_SCHEDULED_CHANGED, WORKER, refused())
        assert age == timedelta()
        seconds += limit.total_seconds()
        assert ages.age(Milestone.POD_SCHEDULED_CHANGED, WORKER, refused()) == limit


def test_workers_are_apart_and_are_forgotten_one_by_one() -> None:
    clocks = Clocks()
    for name in ("w", "other"):
        clocks.ages.observe(workload(name), refused())
    clocks.ages.settle(WORKER.uid)
    assert repr(clocks.ages) == "<Ages workers=2 waiting=1>"
    clocks.ages.forget(WORKER.uid)
    assert repr(clocks.ages) == "<Ages workers=1 waiting=1>"
    clocks.set_by = HOURS
    assert clocks.age_seconds(refused(), worker="other") == 0
    assert clocks.age_seconds(refused()) == HOURS.total_seconds(), "it is not known any more"
    clocks.ages.forget("uid-other")
    clocks.ages.forget(WORKER.uid)
    assert repr(clocks.ages) == NEVER_SEEN
