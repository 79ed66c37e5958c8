"""State of an event recorder: the active series, and the rate limit of each object.

Invariant: memory is bounded for any input. The least recently recorded entries are dropped first. A dropped
series starts over, and a dropped object regains its full burst. Pure: callers pass times, in seconds of any
monotonic clock.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from informers.events.object import EventBody, EventType, Reference


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """Identity of an event: everything except its note and its time."""

    object: str
    type: EventType
    reason: str
    action: str
    related: Reference | None
    distinct: str

    @classmethod
    def of(cls, event: EventBody, distinct: str) -> SeriesKey:
        """Return the key of an event; `distinct` separates events that are otherwise equal."""
        subject = object_key(event.regarding)
        return cls(subject, event.type, event.reason, event.action, event.related, distinct)


@dataclass(slots=True, eq=False)
class Series:
    """An event with its repeats, and its state on the API server."""

    key: SeriesKey
    event: EventBody
    observed_at: float
    last: datetime
    count: int = 1
    name: str = ""
    """Name of the Event object; empty before the first write."""
    on_server: bool = False
    may_exist: bool = False
    """Whether a failed create may have taken effect."""
    written_at: float = -math.inf
    """Time of the last write, successful or not."""
    scheduled: bool = False
    """Whether a write waits or is in flight; at most one."""

    def repeat(self, now: float, wall: datetime) -> None:
        """Count a repeat."""
        self.count += 1
        self.observed_at, self.last = now, wall


class EventSeriesCache:
    """Active series: each ends `finish_seconds` after its last event; at most `series_max` are kept."""

    def __init__(self, *, finish_seconds: float, series_max: int) -> None:
        self._finish_seconds = finish_seconds
        self._series_max = series_max
        # Ordered by `observed_at`, the oldest first.
        self._series: OrderedDict[SeriesKey, Series] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def find(self, key: SeriesKey, now: float) -> Series | None:
        """Return the active series with this key, if any, and drop finished series."""
        while self._series:
            oldest, series = next(iter(self._series.items()))
            if now - series.observed_at < self._finish_seconds:
                break
            del self._series[oldest]
        return self._series.get(key)

    def keep(self, series: Series) -> None:
        """Add a series that was just recorded, or mark it as the most recent."""
        self._series[series.key] = series
        self._series.move_to_end(series.key)
        if len(self._series) > self._series_max:
            self._series.popitem(last=False)


class ObjectRateLimits:
    """Rate limits of up to `objects_max` objects: `burst` events at once, then one every `refill_seconds`."""

    def __init__(self, *, burst: int, refill_seconds: float, objects_max: int) -> None:
        self._burst_seconds = burst * refill_seconds
        self._refill_seconds = refill_seconds
        self._objects_max = objects_max
        # Per object, the time at which its bucket is full again; a burst of refills before that it is empty.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def take(self, subject: str, now: float) -> bool:
        """Take a token of an object; false, without effect, if none is left."""
        full_at = max(self._full_at.get(subject, now), now) + self._refill_seconds
        if full_at - now > self._burst_seconds:
            return False
        self._full_at[subject] = full_at
        self._full_at.move_to_end(subject)
        if len(self._full_at) > self._objects_max:
            self._full_at.popitem(last=False)
        return True


def object_key(reference: Reference) -> str:
    """Return the UID of an object, or its kind, namespace and name without one."""
    return reference.uid or f"{reference.kind}/{reference.namespace}/{reference.name}"
