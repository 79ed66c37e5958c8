"""What the actors of a cluster will do, and when: one list for all of them, in one total order.

Actors hear of changes while somebody else is writing, so they never act at once: they put themselves on the
agenda. Entries are carried out one by one, by time and then in the order in which they were made.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn

import anyio

EntryKey = tuple[str, ...]
"""Who, and what about: there is one entry for each."""


@dataclass(order=True)
class _Entry:
    due_seconds: float
    number: int
    key: EntryKey = field(compare=False)
    act: Callable[[], None] = field(compare=False, repr=False)


@dataclass(frozen=True)
class EventQueueStatistics:
    """Sizes and counts."""

    pending: int
    done: int


class EventQueue:
    """Entries to be carried out in loop time. What an entry raises ends `run`."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._pending: dict[EntryKey, _Entry] = {}
        self._numbers = count()
        self._done = 0
        self._news = anyio.Event()

    def __repr__(self) -> str:
        return f"<Agenda pending={len(self._pending)} done={self._done}>"

    def statistics(self) -> EventQueueStatistics:
        """Numbers of this moment."""
        return EventQueueStatistics(len(self._pending), self._done)

    def after(self, seconds: float, key: EntryKey, act: Callable[[], None]) -> None:
        """Do `act` in that time. An entry of this key that is due no later stays in its place."""
        due_seconds = anyio.current_time() + seconds
        known = self._pending.get(key)
        if known is not None and known.due_seconds <= due_seconds:
            return
        entry = _Entry(due_seconds, next(self._numbers), key, act)
        self._pending[key] = entry
        heapq.heappush(self._heap, entry)
        self._news.set()

    def drop(self, key: EntryKey) -> None:
        """Do not do it after all."""
        self._pending.pop(key, None)

    async def run(self) -> NoReturn:
        """Carry the entries out, until cancelled."""
        while True:
            self._news = anyio.Event()
            wait_seconds = self._step()
            with anyio.move_on_after(wait_seconds):
                await self._news.wait()

    def _step(self) -> float | None:
        """Carry out all that is due; returns the time until the next entry, `None` if there is none."""
        while self._heap:
            entry = self._heap[0]
            if self._pending.get(entry.key) is not entry:
                heapq.heappop(self._heap)
                continue
            wait_seconds = entry.due_seconds - anyio.current_time()
            if wait_seconds > 0:
                return wait_seconds
            heapq.heappop(self._heap)
            del self._pending[entry.key]
            self._done += 1
            entry.act()
        return None
