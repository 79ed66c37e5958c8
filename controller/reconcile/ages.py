"""How long ago something happened to a worker whose time another process wrote.

Such a time can be compared with the wall clock only, and that one may be wrong by hours, or be set at any
moment: a patience of two minutes would last for hours, or end at once. So the wall clock is asked once, when
a time is first looked at, and the monotonic clock counts on from there. Nor is the wall clock believed where
this process knows better: what it sees now and did not see when it last looked at the worker counts from then
at most. Where the cache lagged, that is later than it was, by the lag; never earlier.

Ages are exact to the microsecond: what is left of a time limit is never too short for a timer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from controller.api.core import Pod
from controller.api.status import parse_timestamp, waiting_since
from controller.api.workload import Workload


class Milestone(Enum):
    """What happened in the life of a worker; each may happen again."""

    WAITING_BEGAN = auto()
    POD_CREATED = auto()
    POD_JUDGED = auto()
    """Condition `PodScheduled` changed."""
    POD_DELETION_ASKED = auto()

    def time(self, workload: Workload, pod: Pod | None) -> datetime | None:
        """When it last happened, as the objects say, in UTC; `None`: they do not say."""
        if self is Milestone.WAITING_BEGAN:
            return waiting_since(workload)
        if pod is None:
            return None
        meta = pod.metadata
        match self:
            case Milestone.POD_CREATED:
                return parse_timestamp(meta.creation_timestamp)
            case Milestone.POD_JUDGED:
                judged = pod.scheduled
                since = None if judged is None else judged.last_transition_time
                return parse_timestamp(since) if since else None
            case Milestone.POD_DELETION_ASKED:
                if meta.deletion_timestamp is None:
                    return None
                grace = timedelta(seconds=meta.deletion_grace_period_seconds or 0)
                return parse_timestamp(meta.deletion_timestamp) - grace


@dataclass(frozen=True)
class _Sight:
    """A time, and how old it was when it was first looked at."""

    time: datetime
    age: timedelta
    seen_seconds: float


class Ages:
    """Ages of moments, by worker. A restart asks the wall clock anew."""

    def __init__(self, now: Callable[[], datetime], monotonic: Callable[[], float]) -> None:
        self._now = now
        self._monotonic = monotonic
        self._sights: dict[str, dict[Milestone, _Sight]] = {}
        self._looked_seconds: dict[str, float] = {}
        """Only of workers that this process has looked at, or that came or began to wait while it watched."""

    def __repr__(self) -> str:
        return f"<Ages workers={len(self._looked_seconds)} waiting={len(self._sights)}>"

    def begins(self, worker_uid: str) -> None:
        """The worker came just now, or waits anew: nothing that is looked at later is older than that."""
        self._looked_seconds[worker_uid] = self._monotonic()

    def look(self, workload: Workload, pod: Pod | None) -> None:
        """Take in what is new, for whoever asks later."""
        for moment in Milestone:
            self.since(moment, workload, pod)
        self._looked_seconds[workload.uid] = self._monotonic()

    def since(self, moment: Milestone, workload: Workload, pod: Pod | None) -> timedelta | None:
        """The age of a moment, 0 at first for one that lies ahead; `None`: nothing says when it was."""
        time = moment.time(workload, pod)
        if time is None:
            return None
        of_worker = self._sights.setdefault(workload.uid, {})
        sight = of_worker.get(moment)
        if sight is None or sight.time != time:
            sight = of_worker[moment] = _Sight(time, self._first_age(workload.uid, time), self._monotonic())
        return sight.age + timedelta(seconds=self._monotonic() - sight.seen_seconds)

    def settle(self, worker_uid: str) -> None:
        """The worker is placed, or has ended: nothing is waited for."""
        self._sights.pop(worker_uid, None)

    def forget(self, worker_uid: str) -> None:
        """The worker is gone."""
        self._sights.pop(worker_uid, None)
        self._looked_seconds.pop(worker_uid, None)

    def _first_age(self, worker_uid: str, time: datetime) -> timedelta:
        age = max(timedelta(), self._now() - time)
        looked_seconds = self._looked_seconds.get(worker_uid)
        if looked_seconds is None:
            return age
        return min(age, timedelta(seconds=self._monotonic() - looked_seconds))
