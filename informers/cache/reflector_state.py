"""What a reflector counts of its lists and watches, under the names of client-go's reflector metrics.

`ReflectorCounters` is the writing side and belongs to one reflector; `ReflectorStatistics` is what others
read. Every cause of a list is there from the start with 0, so that a rate over it works from the first
scrape. Counting decides nothing: the reflector's states alone say what happens next.
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
    """Why a list was asked for."""

    FIRST = "first"
    """Nothing is known yet."""
    EXPIRED = "expired"
    """The watch cannot go on from the last version seen (410, or a version that the server lacks)."""
    NOT_FOUND = "not-found"
    """The resource was absent when the watch asked for it."""
    WENT_BACK = "went-back"
    """The server named a version older than one that it had named before."""
    FRUITLESS = "fruitless"
    """Several watches in a row yielded nothing."""
    RETRY = "retry"
    """The list before it failed, or was refused at the last version seen."""


@dataclass(frozen=True, slots=True)
class Listing:
    """About to read the whole list: not older than `resource_version`, or a consistent one if it is empty."""

    resource_version: str = ""
    cause: ListCause = field(default=ListCause.FIRST, compare=False, repr=False)
    """For the counters: nothing is decided by it."""


@dataclass(frozen=True, slots=True)
class Watching:
    """About to watch from the last version seen, after `fruitless` watches in a row that yielded nothing."""

    fruitless: int = 0


@dataclass(frozen=True, slots=True)
class BackingOff:
    """About to wait before going on with `then`."""

    seconds: float
    then: Listing | Watching


State = Listing | Watching | BackingOff


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the store is not being kept up to date at the moment."""

    doing: str
    """`list` or `watch`."""
    reason: str
    message: str

    def __str__(self) -> str:
        return f"cannot {self.doing}: {self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class ReflectorStatistics:
    """What one reflector has done since it was made. Histograms are of what is over."""

    state: State
    problem: Problem | None
    lists_total: int
    """Lists begun."""
    lists_by_cause: Mapping[str, int]
    """The same by `ListCause`; all but `first` are relists."""
    list_duration_seconds: HistogramStatistics
    """From the request for the first page until all of it is in the store and told, failures left out."""
    items_per_list: HistogramStatistics
    watches_total: int
    """Watches asked for."""
    short_watches_total: int
    """Watches that the server closed at once without progress."""
    watch_duration_seconds: HistogramStatistics
    """From asking for a watch to its end, whatever the end."""
    items_per_watch: HistogramStatistics
    """Lines received from one watch, bookmarks included."""
    events_total: int
    """Lines received from watches, bookmarks included."""
    decode_errors_total: int
    """Objects that arrived and could not be decoded."""
    failures_total: int
    """Lists and watches that failed."""
    last_resource_version: str
    """How far list and watch have come, empty before the first list."""
    last_event_age_seconds: float | None
    """How long ago the server said anything (a page, an opened watch, a line); `None` if it never has."""
    last_step_age_seconds: float
    """How long ago the reflector last did anything: each of its waits is bounded, so this is, too."""


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
        self.last_heard_seconds: float | None = None
        self._last_step_seconds: float | None = None

    def __repr__(self) -> str:
        lists = sum(self.lists_by_cause.values())
        return f"<Progress lists={lists} watches={self.watches} events={self.events}>"

    def stepped(self) -> None:
        """The reflector begins a step."""
        self._last_step_seconds = anyio.current_time()

    def heard(self) -> None:
        """The server said something."""
        self.last_heard_seconds = self._last_step_seconds = anyio.current_time()

    def listed(self, began_seconds: float, items: int) -> None:
        """A list that was asked for at `began_seconds` has been taken in."""
        self.list_seconds.observe(anyio.current_time() - began_seconds)
        self.items_per_list.observe(items)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A watch from asking for it to its end, whatever the end."""
        self.watches += 1
        began_seconds, events_before = anyio.current_time(), self.events
        try:
            yield
        finally:
            self.watch_seconds.observe(anyio.current_time() - began_seconds)
            self.items_per_watch.observe(self.events - events_before)

    def statistics(self, state: State, problem: Problem | None, resource_version: str) -> ReflectorStatistics:
        """Counts of this moment."""
        now = anyio.current_time()
        heard, stepped = self.last_heard_seconds, self._last_step_seconds
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
            events_total=self.events,
            decode_errors_total=self.decode_errors,
            failures_total=self.failures,
            last_resource_version=resource_version,
            last_event_age_seconds=None if heard is None else now - heard,
            last_step_age_seconds=0.0 if stepped is None else now - stepped,
        )
