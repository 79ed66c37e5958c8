"""API server replicas on one store: writes and consistent reads agree, but each watch cache has its own lag.

A client that connects to another replica may see an older state than before. The revision of one replica
never decreases. A stuck replica sees no changes for a while, and then all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from random import Random

import anyio

from simulation.apiserver.store import Change


class Replica:
    """The watch cache of one API server."""

    def __init__(self, lag_seconds: Callable[[], float]) -> None:
        self._lag_seconds = lag_seconds
        self._due: list[float] = []
        self._revisions: list[int] = []

    def __repr__(self) -> str:
        return f"<Replica changes={len(self._due)}>"

    def record(self, change: Change, now: float) -> None:
        """Record a write, which this replica sees after its lag and never before an earlier write."""
        due = now + self._lag_seconds()
        self._due.append(max(due, self._due[-1]) if self._due else due)
        self._revisions.append(change.revision)

    def due_seconds(self, revision: int) -> float:
        """Return the time at which this replica sees a revision, possibly in the past."""
        index = bisect_right(self._revisions, revision) - 1
        return self._due[index] if index >= 0 else 0.0

    def revision(self, now: float, newest: int) -> int:
        """Return the last revision that this replica has seen."""
        index = bisect_right(self._due, now)
        if index == len(self._due):
            return newest
        return self._revisions[index] - 1


class Replicas:
    """All replicas. Each new connection gets a random one."""

    def __init__(self) -> None:
        self._all: list[Replica] = []
        self.stale_lists_total = 0
        """Lists that were served from a stale cache."""
        self._rng: Random | None = None

    def __repr__(self) -> str:
        return f"<Replicas {len(self._all)}>"

    def lag(self, count: int, rng: Random, lag_seconds: Callable[[], float]) -> None:
        """Start `count` replicas whose caches lag."""
        self._rng = rng
        self._all = [Replica(lag_seconds) for _ in range(count)]

    def heal(self) -> None:
        """Stop the lag of new changes. Changes that are already delayed keep their time."""
        for replica in self._all:
            replica._lag_seconds = _no_lag  # noqa: SLF001 - our own part

    def choose(self) -> Replica | None:
        """Return the replica of a new connection, or `None` if there is one server without a lag."""
        if self._rng is None:
            return None
        return self._all[self._rng.randrange(len(self._all))]

    def record(self, change: Change) -> None:
        """Record a write. Call it before any replica is read after the write."""
        now = anyio.current_time()
        for replica in self._all:
            replica.record(change, now)


def _no_lag() -> float:
    return 0.0
