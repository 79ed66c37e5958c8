"""The states of a reflector, and its counters under the names of client-go's reflector metrics.

Only the state decides the next step; counters decide nothing. `ReflectorCounters` belongs to one reflector.
Other components read `ReflectorStatistics`. Every list cause is counted from 0 at the start, so that a rate
over it works from the first scrape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import anyio

from informers.histogram import Histogram, HistogramStatistics

ITEM_BUCKETS: Final = (0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0)
"""Numbers of objects in a list, or of events in a watch."""


class ListCause(StrEnum):
    """Reason for a list."""

    FIRST = "first"
    EXPIRED = "expired"
    """The watch cannot continue from the last version (410, or a version that the server lacks)."""
    NOT_FOUND = "not-found"
    """The resource did not exist when the watch was opened."""
    REGRESSED = "went-back"
    """The server returned an older version than before."""
    FRUITLESS = "fruitless"
    """Several watches in a row made no progress."""
    RETRY = "retry"
    """The previous list failed, or was rejected at the last version."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Next step: a list at least as new as `resource_version`, or a consistent one if that is empty."""

    resource_version: str = ""
    cause: ListCause = field(default=ListCause.FIRST, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Watching:
    """Next step: a watch from the last version, after `fruitless` watches in a row without progress."""

    fruitless: int = 0


@dataclass(frozen=True, slots=True)
class BackingOff:
    """Next step: a delay, and after it the state `then`."""

    seconds: float
    then: Listing | Watching


State = Listing | Watching | BackingOff


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why the store is currently not kept up to date."""

    operation: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"cannot {self.operation}: {self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class ReflectorStatistics:
    """Counts of one reflector since its creation. Histograms cover completed lists and watches."""

    state: State
    problem: Problem | None
    lists_total: int
    lists_by_cause: Mapping[str, int]
    """Lists begun, by `ListCause`; all but `first` are relists."""
    list_duration_seconds: HistogramStatistics
    """From the request for the first page until the whole list is applied and reported; successes only."""
    items_per_list: HistogramStatistics
    watches_total: int
    short_watches_total: int
    """Watches that the server closed at once without progress."""
    watch_duration_seconds: HistogramStatistics
    """From the request for a watch to its end, successful or not."""
    items_per_watch: HistogramStatistics
    """Events received from one watch, bookmarks included."""
    decode_errors_total: int
    failures_total: int
    last_resource_version: str
    """Version that list and watch have reached, empty before the first list."""
    last_event_age_seconds: float | None
    """Time since the server last sent anything (a page, watch headers, an event); `None` if never."""
    last_step_age_seconds: float
    """Time since the reflector last made progress; bounded, because each of its waits is bounded."""


class ReflectorCounters:
    """The counters of one reflector. Times are those of the event loop."""

    def __init__(self) -> None:
        self.lists_by_cause: dict[str, int] = dict.fromkeys(ListCause, 0)
        self.watches = 0
        self.short_watches = 0
        self.events = 0
        self.decode_errors = 0
        self.failures = 0
        self.list_seconds = Histogram()
        self.items_per_list = Histogram(ITEM_BUCKETS)
        self.watch_seconds = Histogram()
        self.items_per_watch = Histogram(ITEM_BUCKETS)
        self.last_event_at: float | None = None
        self._last_step_at: float | None = None

    def observe_step(self) -> None:
        """Record that the reflector begins a step."""
        self._last_step_at = anyio.current_time()

    def observe_response(self) -> None:
        """Record that the server sent something."""
        self.last_event_at = self._last_step_at = anyio.current_time()

    def observe_list(self, began_at: float, items: int) -> None:
        """Count a list that was begun at `began_at` and has been applied."""
        self.list_seconds.observe(anyio.current_time() - began_at)
        self.items_per_list.observe(items)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count a watch, and its duration and events until it ends, however it ends."""
        self.watches += 1
        began_at, events_before = anyio.current_time(), self.events
        try:
            yield
        finally:
            self.watch_seconds.observe(anyio.current_time() - began_at)
            self.items_per_watch.observe(self.events - events_before)

    def statistics(self, state: State, problem: Problem | None, resource_version: str) -> ReflectorStatistics:
        """Return the current counts."""
        now = anyio.current_time()
        event_at, step_at = self.last_event_at, self._last_step_at
        return ReflectorStatistics(
            state=state,
            problem=problem,
            lists_total=sum(self.lists_by_cause.values()),
            lists_by_cause={str(cause): count for cause, count in self.lists_by_cause.items()},
            list_duration_seconds=self.list_seconds.statistics(),
            items_per_list=self.items_per_list.statistics(),
            watches_total=self.watches,
            short_watches_total=self.short_watches,
            watch_duration_seconds=self.watch_seconds.statistics(),
            items_per_watch=self.items_per_watch.statistics(),
            decode_errors_total=self.decode_errors,
            failures_total=self.failures,
            last_resource_version=resource_version,
            last_event_age_seconds=None if event_at is None else now - event_at,
            last_step_age_seconds=0.0 if step_at is None else now - step_at,
        )
