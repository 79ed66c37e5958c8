"""The queue of future actions that all actors of a cluster share, in one total order.

A change is delivered to an actor in the middle of another component's write, so an actor never acts at once.
It schedules an action here instead. Actions run one by one, ordered by due time and then by creation.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn

import anyio

EntryKey = tuple[str, ...]
"""The actor and the subject of an action. At most one action is pending per key."""


@dataclass(order=True)
class _Entry:
    due_seconds: float
    number: int
    key: EntryKey = field(compare=False)
    action: Callable[[], None] = field(compare=False, repr=False)


@dataclass(frozen=True)
class EventQueueStatistics:
    """Pending actions, and actions executed so far."""

    pending: int
    done: int


class EventQueue:
    """Actions to run in loop time. An exception from an action ends `run`."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._pending: dict[EntryKey, _Entry] = {}
        self._numbers = count()
        self._done = 0
        self._changed = anyio.Event()

    def __repr__(self) -> str:
        return f"<EventQueue pending={len(self._pending)} done={self._done}>"

    def statistics(self) -> EventQueueStatistics:
        """Return current numbers."""
        return EventQueueStatistics(len(self._pending), self._done)

    def schedule(self, seconds: float, key: EntryKey, action: Callable[[], None]) -> None:
        """Run `action` after a delay, unless one of the same key is pending and due no later."""
        due_seconds = anyio.current_time() + seconds
        known = self._pending.get(key)
        if known is not None and known.due_seconds <= due_seconds:
            return
        entry = _Entry(due_seconds, next(self._numbers), key, action)
        self._pending[key] = entry
        heapq.heappush(self._heap, entry)
        self._changed.set()

    async def run(self) -> NoReturn:
        """Run actions as they become due, until cancelled."""
        while True:
            self._changed = anyio.Event()
            wait_seconds = self._run_due()
            with anyio.move_on_after(wait_seconds):
                await self._changed.wait()

    def _run_due(self) -> float | None:
        """Run all due actions; return the time until the next one, `None` if there is none."""
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
            entry.action()
        return None
