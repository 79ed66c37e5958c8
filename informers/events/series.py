"""What an event recorder remembers: the series that go on, and how much each object may still say.

The invariant: memory is bounded, whatever is recorded. The least recently heard of are forgotten first; a
forgotten series starts anew, a forgotten object has its whole allowance back. Pure: times are handed in, in
seconds of any monotonic clock.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from informers.events.object import EventBody, EventType, Reference


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """What tells one event from another: everything but its note and its time."""

    object: str
    type: EventType
    reason: str
    action: str
    related: Reference | None
    distinct: str

    @classmethod
    def of(cls, event: EventBody, distinct: str) -> SeriesKey:
        """The key of an event; `distinct` is whatever else makes it another one."""
        subject = object_key(event.regarding)
        return cls(subject, event.type, event.reason, event.action, event.related, distinct)


@dataclass(slots=True, eq=False)
class Series:
    """An event with its repeats, and what the API server has been told of it."""

    key: SeriesKey
    event: EventBody
    observed_at: float
    """When it was last recorded."""
    last: datetime
    """The same by the wall clock."""
    count: int = 1
    name: str = ""
    """Of the object; empty before it is first sent."""
    on_server: bool = False
    """The object was created."""
    unanswered: bool = False
    """A create was sent and failed in a way that may have taken effect."""
    told_at: float = -math.inf
    """When it was last sent, accepted or not."""
    scheduled: bool = False
    """It waits to be sent or is being sent; never twice."""

    def repeat(self, now: float, wall: datetime) -> None:
        """It happened again."""
        self.count += 1
        self.observed_at, self.last = now, wall


class EventSeriesCache:
    """The series that go on: each ends `finish_seconds` after its last event, `series_max` are kept."""

    def __init__(self, *, finish_seconds: float, series_max: int) -> None:
        self._finish_seconds = finish_seconds
        self._series_max = series_max
        # Ordered by `observed_at`, the oldest first.
        self._series: OrderedDict[SeriesKey, Series] = OrderedDict()

    def __repr__(self) -> str:
        return f"<SeriesMemory {len(self._series)}/{self._series_max}>"

    def __len__(self) -> int:
        return len(self._series)

    def find(self, key: SeriesKey, now: float) -> Series | None:
        """The series that goes on under this key; what has ended is forgotten on the way."""
        while self._series:
            oldest, series = next(iter(self._series.items()))
            if now - series.observed_at < self._finish_seconds:
                break
            del self._series[oldest]
        return self._series.get(key)

    def keep(self, series: Series) -> None:
        """Remember a series that was just heard of."""
        self._series[series.key] = series
        self._series.move_to_end(series.key)
        if len(self._series) > self._series_max:
            self._series.popitem(last=False)


class ObjectRateLimits:
    """Per object, `burst` events at once and one more every `refill_seconds`; `objects_max` are kept."""

    def __init__(self, *, burst: int, refill_seconds: float, objects_max: int) -> None:
        self._burst_seconds = burst * refill_seconds
        self._refill_seconds = refill_seconds
        self._objects_max = objects_max
        # Per object, when its bucket is full again: a burst of refills ahead of now, it is empty.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Allowances {len(self._full_at)}/{self._objects_max}>"

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, subject: str, now: float) -> bool:
        """Take one from the allowance of an object; false, and nothing taken, if there is none left."""
        full_at = max(self._full_at.get(subject, now), now) + self._refill_seconds
        if full_at - now > self._burst_seconds:
            return False
        self._full_at[subject] = full_at
        self._full_at.move_to_end(subject)
        if len(self._full_at) > self._objects_max:
            self._full_at.popitem(last=False)
        return True


def object_key(reference: Reference) -> str:
    """Which object: its UID, or what is known of one without."""
    return reference.uid or f"{reference.kind}/{reference.namespace}/{reference.name}"
