"""How long a freed seat takes to reach the next worker: counted for metrics, decides nothing.

A seat that went from a ledger while somebody waited for one is handed to the worker that is woken for it, and
counts from the moment in which the cache showed it gone until the cache shows the booking of that worker. A
worker that does not take it passes its time on to the next one. A seat that nobody could take counts for
nothing. Only the process that places workers measures: `begin` and `end` say from when until when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import anyio

from informers.api import ObjectKey
from informers.histogram import Histogram, HistogramStatistics

HAND_OFF_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class HandOffLatency:
    """The seats that are on their way from one worker to another. Times are loop time."""

    def __init__(self) -> None:
        self._measuring = False
        self._freed: deque[float] = deque()
        # Workers that were woken for a freed seat and have not booked it yet: when it was freed.
        self._on_the_way: dict[ObjectKey, float] = {}
        self._seconds = Histogram(HAND_OFF_BUCKETS_SECONDS)

    def __repr__(self) -> str:
        done = self._seconds.statistics().count
        return f"<HandOffs freed={len(self._freed)} on_the_way={len(self._on_the_way)} done={done}>"

    def statistics(self) -> HistogramStatistics:
        """The hand-offs so far, in seconds."""
        return self._seconds.statistics()

    def start(self) -> None:
        """This process places workers from now on."""
        self._measuring = True

    def stop(self) -> None:
        """Another process places workers from now on; what is on its way is not ours to measure."""
        self._measuring = False
        self._freed.clear()
        self._on_the_way.clear()

    def record_freed(self, seats: int) -> None:
        """So many seats went from a ledger."""
        if self._measuring:
            self._freed.extend([anyio.current_time()] * seats)

    def record_activated(self, takers: Sequence[ObjectKey]) -> None:
        """These workers are woken, the first in line first; what is left over is for nobody."""
        for key in takers:
            if self._freed and key not in self._on_the_way:
                self._on_the_way[key] = self._freed.popleft()
        self._freed.clear()

    def record_skipped(self, key: ObjectKey) -> None:
        """A worker did not take what it was woken for: the next one may."""
        since = self._on_the_way.pop(key, None)
        if since is not None:
            self._freed.appendleft(since)

    def record_booked(self, key: ObjectKey) -> None:
        """A worker has got a seat on a claim of others."""
        since = self._on_the_way.pop(key, None)
        if since is not None:
            self._seconds.observe(anyio.current_time() - since)
