"""Latency from a freed seat to the next booking, for metrics only.

A seat that leaves a ledger while workers wait is handed to the worker that is activated for it. The time runs
from the moment when the cache shows the seat gone until it shows that worker's booking. If a worker does not
book the seat, its start time passes to the next one. Seats that no worker can use do not count. A process
measures only while it places workers, between `start` and `stop`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import anyio

from informers.api import ObjectKey
from informers.histogram import Histogram, HistogramStatistics

HAND_OFF_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class HandOffLatency:
    """Tracks freed seats until the next worker books them. Times are loop time."""

    def __init__(self) -> None:
        self._measuring = False
        self._freed: deque[float] = deque()
        # By activated worker: the time at which its seat was freed. Dropped once it books the seat.
        self._pending: dict[ObjectKey, float] = {}
        self._seconds = Histogram(HAND_OFF_BUCKETS_SECONDS)

    def statistics(self) -> HistogramStatistics:
        """Return the distribution of completed hand-offs, in seconds."""
        return self._seconds.statistics()

    def start(self) -> None:
        """Start measuring: this process places workers from now on."""
        self._measuring = True

    def stop(self) -> None:
        """Stop measuring and drop pending hand-offs, which another process completes."""
        self._measuring = False
        self._freed.clear()
        self._pending.clear()

    def record_freed(self, seats: int) -> None:
        """Record that this many seats left a ledger."""
        if self._measuring:
            self._freed.extend([anyio.current_time()] * seats)

    def record_activated(self, keys: Sequence[ObjectKey]) -> None:
        """Record that these workers were activated, oldest first. Remaining freed seats are dropped."""
        for key in keys:
            if self._freed and key not in self._pending:
                self._pending[key] = self._freed.popleft()
        self._freed.clear()

    def record_skipped(self, key: ObjectKey) -> None:
        """Record that a worker did not book the seat, so that the next one may."""
        since = self._pending.pop(key, None)
        if since is not None:
            self._freed.appendleft(since)

    def record_booked(self, key: ObjectKey) -> None:
        """Record that a worker joined a claim."""
        since = self._pending.pop(key, None)
        if since is not None:
            self._seconds.observe(anyio.current_time() - since)
