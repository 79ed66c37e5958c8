"""How long ago something happened whose time another process wrote.

Such a time can be compared with the wall clock only, and that one may be set back or forward by hours: a
patience of two minutes would last for hours, or end at once. So the wall clock is asked once, when a time is
first looked at, and the monotonic clock counts on from there.

Ages are exact to the microsecond: what is left of a time limit is never too short for a timer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto


class Moment(Enum):
    """What happened, in the life of a worker; its latest time is remembered."""

    WAITING_BEGAN = auto()
    POD_CREATED = auto()
    POD_JUDGED = auto()
    """Condition `PodScheduled` changed."""
    POD_DELETION_ASKED = auto()


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
        self._sights: dict[str, dict[Moment, _Sight]] = {}

    def __repr__(self) -> str:
        return f"<Ages workers={len(self._sights)}>"

    def since(self, worker_uid: str, moment: Moment, time: datetime) -> timedelta:
        """The age of a worker's moment, which was at `time` (UTC); 0 at first for one that lies ahead."""
        of_worker = self._sights.setdefault(worker_uid, {})
        sight = of_worker.get(moment)
        if sight is None or sight.time != time:
            age = max(timedelta(), self._now() - time)
            sight = of_worker[moment] = _Sight(time, age, self._monotonic())
        return sight.age + timedelta(seconds=self._monotonic() - sight.seen_seconds)

    def forget(self, worker_uid: str) -> None:
        """The worker is placed, or gone."""
        self._sights.pop(worker_uid, None)
