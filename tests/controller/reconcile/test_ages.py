"""Ages: the wall clock is read once per timestamp, then the monotonic clock counts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controller.api.core import Pod
from controller.reconcile.local_state import Ages, Milestone
from tests.controller.build import EPOCH, Clock, at, pod, unscheduled, workload

WORKER = workload("w")
HOURS = timedelta(hours=11)
NEVER_SEEN = "<Ages workers=0 waiting=0>"


class Clocks:
    """A monotonic clock, and a wall clock that can be set."""

    def __init__(self, set_by: timedelta = timedelta()) -> None:
        self.steady = Clock()
        self.set_by = set_by
        self.ages = Ages(lambda: self.steady() + self.set_by, self.steady.monotonic)

    def age_seconds(
        self, refused: Pod, milestone: Milestone = Milestone.POD_SCHEDULED_CHANGED, worker: str = "w"
    ) -> float:
        age = self.ages.age(milestone, workload(worker), refused)
        assert age is not None
        return age.total_seconds()


def refused(minute: float = 0) -> Pod:
    return pod("w", status=unscheduled(since=at(minutes=minute)), meta={"creationTimestamp": at()})


def test_the_first_age_of_an_earlier_event_comes_from_the_wall_clock() -> None:
    clocks = Clocks()
    clocks.steady.advance(minutes=3)
    assert clocks.age_seconds(refused(1)) == 120
    clocks.steady.advance(seconds=5)
    assert clocks.age_seconds(refused(1)) == 125


@pytest.mark.parametrize("set_by", [HOURS, -HOURS], ids=["forward", "back"])
def test_setting_the_wall_clock_changes_no_age(set_by: timedelta) -> None:
    clocks = Clocks()
    clocks.steady.advance(seconds=1)
    assert clocks.age_seconds(refused()) == 1
    clocks.set_by = set_by
    assert clocks.age_seconds(refused()) == 1
    clocks.steady.advance(minutes=2)
    assert clocks.age_seconds(refused()) == 121


def test_a_timestamp_in_the_future_starts_at_age_zero() -> None:
    """The clock of another machine may be hours ahead."""
    clocks = Clocks(-HOURS)
    assert clocks.age_seconds(refused()) == 0
    clocks.steady.advance(minutes=2)
    assert clocks.age_seconds(refused()) == 120


def test_ages_of_a_new_worker_are_bounded_by_its_appearance() -> None:
    clocks = Clocks(HOURS)
    clocks.ages.restart(WORKER.uid)
    clocks.steady.advance(seconds=2)
    assert clocks.age_seconds(refused(), Milestone.WAIT_STARTED) == 2
    assert clocks.age_seconds(refused(), Milestone.POD_CREATED) == 2


def test_ages_of_a_worker_that_waits_again_are_bounded_by_that_moment() -> None:
    """A standby reconciles nothing, but sees all writes."""
    clocks = Clocks(HOURS)
    clocks.ages.restart(WORKER.uid)
    clocks.steady.advance(minutes=60)
    clocks.ages.restart(WORKER.uid)
    clocks.steady.advance(seconds=2)
    assert clocks.age_seconds(refused(), Milestone.WAIT_STARTED) == 2


def test_an_event_after_the_last_observation_is_no_older_than_that() -> None:
    clocks = Clocks(HOURS)
    clocks.ages.observe(WORKER, None)
    clocks.steady.advance(seconds=7)
    clocks.ages.observe(WORKER, refused())
    clocks.steady.advance(seconds=30)
    assert clocks.age_seconds(refused()) == 37, "it happened between the observations"
    clocks.ages.observe(WORKER, refused(0.5))
    clocks.steady.advance(seconds=1)
    assert clocks.age_seconds(refused(0.5)) == 31


ENDED_CONTAINER = {"name": "worker", "state": {"terminated": {"exitCode": 1, "finishedAt": at()}}}


def test_an_observation_records_the_age_of_every_milestone() -> None:
    clocks = Clocks()
    ending = pod(
        "w",
        status=unscheduled() | {"containerStatuses": [ENDED_CONTAINER]},
        meta={"deletionTimestamp": at(seconds=30), "deletionGracePeriodSeconds": 30},
        restartPolicy="Never",
    )
    clocks.ages.observe(WORKER, ending)
    clocks.set_by = HOURS
    clocks.steady.advance(minutes=1)
    assert {milestone: clocks.age_seconds(ending, milestone) for milestone in Milestone} == dict.fromkeys(
        Milestone, 60
    )


def test_deletion_was_requested_one_grace_period_before_the_deletion_timestamp() -> None:
    clocks = Clocks()
    clocks.steady.advance(seconds=45)
    ending = pod("w", meta={"deletionTimestamp": at(seconds=60), "deletionGracePeriodSeconds": 30})
    assert clocks.age_seconds(ending, Milestone.POD_DELETION_REQUESTED) == 15


def test_an_earlier_timestamp_is_a_new_event() -> None:
    clocks = Clocks()
    clocks.steady.advance(minutes=10)
    clocks.ages.observe(WORKER, refused(9))
    clocks.steady.advance(seconds=3)
    clocks.ages.observe(WORKER, refused(2))
    clocks.steady.advance(seconds=1)
    assert clocks.age_seconds(refused(2)) == 4


def test_a_milestone_without_a_timestamp_has_no_age() -> None:
    ages = Clocks().ages
    assert {milestone for milestone in Milestone if ages.age(milestone, WORKER, None) is None} == {
        Milestone.POD_CREATED,
        Milestone.POD_SCHEDULED_CHANGED,
        Milestone.POD_DELETION_REQUESTED,
        Milestone.WORKER_CONTAINER_ENDED,
    }
    undated = pod("w", status={"conditions": [{"type": "PodScheduled", "status": "False"}]})
    assert ages.age(Milestone.POD_SCHEDULED_CHANGED, WORKER, undated) is None


def test_waiting_for_the_remaining_time_always_reaches_the_limit() -> None:
    """A sum of floats may stay slightly below the limit, by less than any timer can wait."""
    limit, seconds = timedelta(seconds=10), 0.0
    ages = Ages(lambda: EPOCH, lambda: seconds)
    for number in range(100):
        seconds = number / 7
        ages.forget(WORKER.uid)
        age = ages.age(Milestone.POD_SCHEDULED_CHANGED, WORKER, refused())
        assert age == timedelta()
        seconds += limit.total_seconds()
        assert ages.age(Milestone.POD_SCHEDULED_CHANGED, WORKER, refused()) == limit


def test_each_worker_is_forgotten_on_its_own() -> None:
    clocks = Clocks()
    for name in ("w", "other"):
        clocks.ages.observe(workload(name), refused())
    clocks.ages.settle(WORKER.uid)
    assert repr(clocks.ages) == "<Ages workers=2 waiting=1>"
    clocks.ages.forget(WORKER.uid)
    assert repr(clocks.ages) == "<Ages workers=1 waiting=1>"
    clocks.set_by = HOURS
    assert clocks.age_seconds(refused(), worker="other") == 0
    assert clocks.age_seconds(refused()) == HOURS.total_seconds(), "its observations are gone"
    clocks.ages.forget("uid-other")
    clocks.ages.forget(WORKER.uid)
    assert repr(clocks.ages) == NEVER_SEEN


def test_an_exempt_wait_counts_from_its_last_exemption() -> None:
    clocks = Clocks()
    worker = workload("w")
    clocks.steady.advance(minutes=1)
    assert clocks.ages.counted_wait(worker) == timedelta(minutes=1)
    clocks.ages.exempt(worker.uid)
    clocks.steady.advance(minutes=3)
    clocks.ages.exempt(worker.uid)
    clocks.steady.advance(seconds=7)
    assert clocks.ages.counted_wait(worker) == timedelta(seconds=7)


@pytest.mark.parametrize("grace_seconds", [2**63 - 1, -(2**63), 10**12])
def test_a_grace_period_at_the_end_of_its_range_does_no_harm(grace_seconds: int) -> None:
    meta = {
        "creationTimestamp": at(),
        "deletionTimestamp": at(minutes=1),
        "deletionGracePeriodSeconds": grace_seconds,
    }
    clocks = Clocks()
    clocks.steady.advance(minutes=2)
    assert clocks.age_seconds(pod("w", meta=meta), Milestone.POD_DELETION_REQUESTED) == 120


def test_a_condition_is_no_older_than_its_pod() -> None:
    clocks = Clocks()
    clocks.steady.advance(minutes=2)
    zero = pod("w", status=unscheduled(since="0001-01-01T00:00:00Z"), meta={"creationTimestamp": at()})
    assert clocks.age_seconds(zero) == 120
