"""Several API servers on one store: writes and consistent reads agree, watch caches lag, each by its own.

A client that is connected to another replica than before may find it behind what it has already seen. What
a replica has seen only ever grows; a replica that is stuck sees nothing for a while and then all of it.
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

    def hear(self, change: Change, now: float) -> None:
        """A write was made; it will be seen here after the lag, and never before an earlier one."""
        due = now + self._lag_seconds()
        self._due.append(max(due, self._due[-1]) if self._due else due)
        self._revisions.append(change.revision)

    def due_seconds(self, revision: int) -> float:
        """When this replica sees that revision: a time that may be over."""
        index = bisect_right(self._revisions, revision) - 1
        return self._due[index] if index >= 0 else 0.0

    def revision(self, now: float, newest: int) -> int:
        """The last revision that it has seen."""
        index = bisect_right(self._due, now)
        if index == len(self._due):
            return newest
        return self._revisions[index] - 1


class Replicas:
    """All replicas, and which of them each client is connected to."""

    def __init__(self) -> None:
        self._all: list[Replica] = []
        self.stale_lists_total = 0
        """Lists that showed less than there was."""
        self._rng: Random | None = None

    def __repr__(self) -> str:
        return f"<Replicas {len(self._all)}>"

    def lag(self, count: int, rng: Random, lag_seconds: Callable[[], float]) -> None:
        """From now on there are `count` replicas whose caches lag."""
        self._rng = rng
        self._all = [Replica(lag_seconds) for _ in range(count)]

    def heal(self) -> None:
        """From now on every replica is up to date; what is on its way comes when it was due."""
        for replica in self._all:
            replica._lag_seconds = _none  # noqa: SLF001 - our own part

    def choose(self) -> Replica | None:
        """The replica that a new connection is made to; `None` if there is one server without a lag."""
        if self._rng is None:
            return None
        return self._all[self._rng.randrange(len(self._all))]

    def hear(self, change: Change) -> None:
        """A write was made; to be told before anybody asks a replica about it."""
        now = anyio.current_time()
        for replica in self._all:
            replica.hear(change, now)


def _none() -> float:
    return 0.0
