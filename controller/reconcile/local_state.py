"""State of one process that no API object holds.

All of it may be lost on a restart. Waits then start again, so decisions come later, but stay correct. Ages
are the exception: they are taken from the wall clock again, and a clock that is hours ahead ends a wait
early.

Durations are measured by the monotonic clock. Setting back the wall clock must not extend every back-off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

import anyio

from controller.api.core import Pod
from controller.api.dra import Allocation, ResourceClaim
from controller.api.status import parse_timestamp, waiting_since
from controller.api.workload import Workload
from controller.cluster.caches import Caches
from controller.reconcile.backoff import PlaceHolds, PodBudget, RefusedDevices, RejectionBackoff
from controller.reconcile.losses.memory import FirstDevices, LostPods
from informers.errors import ApiError
from placement.types import SeatInfo


class AllocationTimes:
    """The time at which each claim's current allocation was first seen. It follows the claims' cache."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, tuple[Allocation, float]] = {}

    def __repr__(self) -> str:
        return f"<AllocationTimes seen={len(self._seen)}>"

    def age(self, claim: ResourceClaim) -> timedelta:
        """Return how long ago this allocation was first seen; 0 if it has not been seen."""
        seen = self._seen.get(claim.metadata.uid)
        if seen is None or seen[0] != claim.status.allocation:
            return timedelta()
        return timedelta(seconds=self._monotonic() - seen[1])

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Record the current allocation of a claim, or drop a deleted claim."""
        claim = new or old
        if claim is None:
            return
        uid, allocation = claim.metadata.uid, claim.status.allocation
        if new is None or allocation is None:
            self._seen.pop(uid, None)
        elif uid not in self._seen or self._seen[uid][0] != allocation:
            self._seen[uid] = (allocation, self._monotonic())


class Nominations:
    """The time when this process first saw a `nominatedNodeName` on each worker's Pod.

    The age counts from the first name, so that a new name every minute does not delay the worker further.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, tuple[str, float]] = {}

    def __repr__(self) -> str:
        return f"<Nominations seen={len(self._seen)}>"

    def age(self, worker_uid: str, pod: Pod) -> timedelta | None:
        """Return how long this Pod has had a nominated node; `None` if it has none now."""
        if not pod.status.nominated_node_name:
            self.forget(worker_uid)
            return None
        seen = self._seen.get(worker_uid)
        if seen is None or seen[0] != pod.metadata.uid:
            seen = self._seen[worker_uid] = (pod.metadata.uid, self._monotonic())
        return timedelta(seconds=self._monotonic() - seen[1])

    def forget(self, worker_uid: str) -> None:
        """Drop the nomination of a worker's Pod."""
        self._seen.pop(worker_uid, None)


@dataclass
class PendingBookings:
    """Bookings of this process between the choice of a seat and the answer, and those without an answer."""

    reservations: dict[str, tuple[str, SeatInfo]] = field(default_factory=dict)
    """By worker UID: the claim and the reservation."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    """Set, and replaced, whenever a booking ends."""
    unanswered: dict[str, set[str]] = field(default_factory=dict)
    """By worker UID: claims that may have a seat of the worker which the cache does not show yet."""

    @contextmanager
    def answered(self, worker_uid: str, claim: str) -> Iterator[None]:
        """Record the claim if the booking in this block ends without an answer."""
        try:
            yield
        except ApiError:
            self.unanswered.setdefault(worker_uid, set()).add(claim)
            raise


@dataclass(frozen=True)
class LocalState:
    """The local state of one controller."""

    allocation_times: AllocationTimes
    place_holds: PlaceHolds
    pod_budget: PodBudget
    rejection_backoff: RejectionBackoff
    lost_pods: LostPods
    first_devices: FirstDevices
    refused_devices: RefusedDevices
    ages: Ages
    nominations: Nominations
    pending_bookings: PendingBookings

    @classmethod
    def empty(
        cls,
        caches: Caches,
        namespace: str,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> LocalState:
        """Return the state of a process that has just started; it follows the caches from here on.

        `now` is the wall clock. `monotonic` is in seconds and cannot be set.
        """
        state = cls(
            AllocationTimes(monotonic),
            PlaceHolds(caches, namespace, monotonic),
            PodBudget(caches, namespace, monotonic),
            RejectionBackoff(monotonic),
            LostPods(caches, monotonic),
            FirstDevices(),
            RefusedDevices(monotonic),
            Ages(now, monotonic),
            Nominations(monotonic),
            PendingBookings(),
        )
        caches.claims.on_change(state.allocation_times.claim_changed, inline=True)

        def workload_changed(old: Workload | None, new: Workload | None) -> None:
            if new is None:
                if old is not None:
                    state.record_ended(old)
                    state.forget(old.uid)
                return
            # A Workload of the first list may have begun to wait long before this process started.
            began = caches.workloads.store.synced if old is None else waiting_since(old) != waiting_since(new)
            if began:
                state.ages.restart(new.uid)
            if old is not None:
                if new.terminal:
                    state.record_ended(old)
                state.place_holds.observe_status(old, new)

        caches.workloads.on_change(workload_changed, inline=True)
        return state

    def record_ended(self, before: Workload) -> None:
        """Record the end of a worker that had a node, by its last version before the end."""
        if before.status.node_name and not before.terminal:
            self.place_holds.record_ended(before.status.node_name)

    def settle(self, worker_uid: str) -> None:
        """Drop the wait state of a worker that is placed or has ended."""
        self.place_holds.forget(worker_uid)
        self.rejection_backoff.forget(worker_uid)
        self.refused_devices.forget(worker_uid)
        self.ages.settle(worker_uid)
        self.nominations.forget(worker_uid)

    def forget(self, worker_uid: str) -> None:
        """Drop everything about a deleted worker."""
        self.settle(worker_uid)
        self.pod_budget.forget(worker_uid)
        self.lost_pods.forget(worker_uid)
        self.first_devices.forget(worker_uid)
        self.ages.forget(worker_uid)
        self.pending_bookings.unanswered.pop(worker_uid, None)


class Milestone(Enum):
    """An event in the life of a worker. It may happen again, with a new timestamp."""

    WAIT_STARTED = auto()
    POD_CREATED = auto()
    POD_SCHEDULED_CHANGED = auto()
    """Condition `PodScheduled` changed."""
    POD_DELETION_REQUESTED = auto()
    WORKER_CONTAINER_ENDED = auto()
    """The worker's container ended, and other containers of its Pod may still run."""

    def time(self, workload: Workload, pod: Pod | None) -> datetime | None:
        """Return the time of its last occurrence (UTC) as recorded in the objects, if any."""
        if self is Milestone.WAIT_STARTED:
            return waiting_since(workload)
        if pod is None:
            return None
        meta, created = pod.metadata, parse_timestamp(pod.metadata.creation_timestamp)
        match self:
            case Milestone.POD_CREATED:
                return created
            case Milestone.POD_SCHEDULED_CHANGED:
                since = None if pod.scheduled is None else pod.scheduled.last_transition_time
                return max(created, parse_timestamp(since)) if since else None
            case Milestone.WORKER_CONTAINER_ENDED:
                end = pod.container_end(workload.spec.worker_container_name)
                return max(created, parse_timestamp(end.finished_at)) if end and end.finished_at else None
            case Milestone.POD_DELETION_REQUESTED:
                if meta.deletion_timestamp is None:
                    return None
                deleted_at = parse_timestamp(meta.deletion_timestamp)
                try:
                    return deleted_at - timedelta(seconds=meta.deletion_grace_period_seconds or 0)
                except OverflowError:  # the API accepts a grace period of up to 292 billion years
                    return created


@dataclass(frozen=True)
class _Observation:
    """A timestamp, and its age when it was first observed."""

    time: datetime
    age: timedelta
    observed_seconds: float


class Ages:
    """Ages of milestones by worker. After a restart each age is taken from the wall clock again.

    Another process wrote the timestamp of a milestone. It can only be compared with the wall clock, which may
    be hours wrong or be set at any time: a two-minute wait could last for hours, or end at once. So the wall
    clock is read once per timestamp, when it is first observed, and the monotonic clock counts from there.

    The first age is also bounded: an event that was not there at the previous observation of the worker is no
    older than that observation. A lagging cache makes an age too short by the lag, never too long. Ages are
    exact to the microsecond, so that the remaining time of a limit is never too short for a timer.
    """

    def __init__(self, now: Callable[[], datetime], monotonic: Callable[[], float]) -> None:
        self._now = now
        self._monotonic = monotonic
        self._observations: dict[str, dict[Milestone, _Observation]] = {}
        self._last_observed_seconds: dict[str, float] = {}
        """Only for workers that this process observed, or saw appear or begin to wait."""
        self._exempted_seconds: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<Ages workers={len(self._last_observed_seconds)} waiting={len(self._observations)}>"

    def restart(self, worker_uid: str) -> None:
        """Bound later ages of a worker that has just appeared or begun to wait again."""
        self._last_observed_seconds[worker_uid] = self._monotonic()

    def observe(self, workload: Workload, pod: Pod | None) -> None:
        """Record the age of every milestone with a new timestamp."""
        for milestone in Milestone:
            self.age(milestone, workload, pod)
        self._last_observed_seconds[workload.uid] = self._monotonic()

    def age(self, milestone: Milestone, workload: Workload, pod: Pod | None) -> timedelta | None:
        """Return the age of a milestone, if it has a time. Ages of times in the future start at 0."""
        time = milestone.time(workload, pod)
        if time is None:
            return None
        observations = self._observations.setdefault(workload.uid, {})
        seen = observations.get(milestone)
        if seen is None or seen.time != time:
            seen = _Observation(time, self._first_age(workload.uid, time), self._monotonic())
            observations[milestone] = seen
        return seen.age + timedelta(seconds=self._monotonic() - seen.observed_seconds)

    def exempt(self, worker_uid: str) -> None:
        """Record that the worker waits for something that the placement timeout does not count."""
        self._exempted_seconds[worker_uid] = self._monotonic()

    def counted_wait(self, workload: Workload) -> timedelta:
        """Return how long the worker has waited since its wait began or was last exempt."""
        waited = self.age(Milestone.WAIT_STARTED, workload, None) or timedelta()
        exempted_seconds = self._exempted_seconds.get(workload.uid)
        if exempted_seconds is None:
            return waited
        return min(waited, timedelta(seconds=self._monotonic() - exempted_seconds))

    def settle(self, worker_uid: str) -> None:
        """Drop the ages of a worker that is placed or has ended."""
        self._observations.pop(worker_uid, None)
        self._exempted_seconds.pop(worker_uid, None)

    def forget(self, worker_uid: str) -> None:
        """Drop everything about a deleted worker."""
        self.settle(worker_uid)
        self._last_observed_seconds.pop(worker_uid, None)

    def _first_age(self, worker_uid: str, time: datetime) -> timedelta:
        age = max(timedelta(), self._now() - time)
        last_seconds = self._last_observed_seconds.get(worker_uid)
        if last_seconds is None:
            return age
        return min(age, timedelta(seconds=self._monotonic() - last_seconds))
