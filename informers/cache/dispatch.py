"""Hands the changes of a store to handlers, so that none of them can hold up the store or another one.

A queued handler has a queue of its own, without bound, and a task that delivers one change at a time and
then lets others run. An inline handler is called in the very step that changed the store, for indexes in
memory that must never lag it (what a long list changed is told in slices, and only that may lag). Either way
each handler gets all changes in the order in which the store tells them, and one that raises is logged,
counted, and given the next change. Calls are synchronous: one that does not return promptly holds the event
loop, and no queue can help that.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import Final, Generic, NoReturn

import anyio
import anyio.lowlevel

from informers.api import ObjectKey, T
from informers.cache.changes import Added, Change, Deleted, EventHandler, Synced, Updated

BACKLOG_WARNING: Final = 1024
"""Waiting changes that are worth a warning: the size at which client-go's buffer starts to grow."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HandlerStatistics:
    """What one handler has been given."""

    name: str
    has_synced: bool
    backlog: int
    """Changes waiting for it."""
    delivered_total: int
    """Changes given to it, those included on which it raised."""
    failures_total: int
    """Changes on which it raised."""


class Registration(ABC, Generic[T]):
    """One handler of one informer. `name` and `subject`, what it hears of, are for people."""

    def __init__(self, name: str, subject: str, handler: EventHandler[T]) -> None:
        self.name = name
        self._subject = subject
        self._handler = handler
        self._synced = anyio.Event()
        self._delivered = 0
        self._failures = 0

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self} synced={self.has_synced} backlog={self.backlog} "
            f"delivered={self._delivered} failures={self._failures}>"
        )

    def __str__(self) -> str:
        return f"{self.name} of {self._subject}"

    @property
    def has_synced(self) -> bool:
        """Whether the handler has been given all that was there when it began."""
        return self._synced.is_set()

    @property
    @abstractmethod
    def backlog(self) -> int:
        """Changes waiting for the handler."""

    @abstractmethod
    def offer(self, change: Change[T]) -> None:
        """Deliver `change` now or later. Never raises."""

    async def wait_synced(self) -> None:
        """Return once `has_synced` is true."""
        await self._synced.wait()

    def statistics(self) -> HandlerStatistics:
        """Counts of this moment."""
        return HandlerStatistics(self.name, self.has_synced, self.backlog, self._delivered, self._failures)

    def _deliver(self, change: Change[T]) -> None:
        if isinstance(change, Synced):
            self._synced.set()
            return
        self._delivered += 1
        try:
            self._call(change)
        except Exception:
            self._failures += 1
            logger.exception("handler %s failed on %s", self, _describe(change))

    def _call(self, change: Added[T] | Updated[T] | Deleted[T]) -> None:
        match change:
            case Added():
                self._handler.on_add(change.obj, change.initial)
            case Updated():
                self._handler.on_update(change.old, change.new)
            case Deleted():
                self._handler.on_delete(change.obj)


class InlineRegistration(Registration[T]):
    """A handler that is called in the step that changes the store."""

    @property
    def backlog(self) -> int:
        """Always 0."""
        return 0

    def offer(self, change: Change[T]) -> None:
        """Call the handler."""
        self._deliver(change)


class QueuedRegistration(Registration[T]):
    """A handler that is called from a task of its own, `run`."""

    def __init__(self, name: str, subject: str, handler: EventHandler[T]) -> None:
        super().__init__(name, subject, handler)
        self._queue: deque[Change[T]] = deque()
        self._wake = anyio.Event()
        self._warned = False

    @property
    def backlog(self) -> int:
        """Changes waiting for the handler."""
        return len(self._queue)

    def offer(self, change: Change[T]) -> None:
        """Queue `change` for `run`."""
        self._queue.append(change)
        self._wake.set()
        # The adds of a first list are expected to pile up; what piles up later is a handler left behind.
        if self.has_synced and len(self._queue) > BACKLOG_WARNING and not self._warned:
            self._warned = True
            logger.warning("handler %s is behind by %d changes", self, len(self._queue))

    async def run(self) -> NoReturn:
        """Deliver changes until cancelled, one in each turn of the event loop."""
        while True:
            while self._queue:
                self._deliver(self._queue.popleft())
                await anyio.lowlevel.checkpoint()
            self._warned = False
            self._wake = anyio.Event()
            await self._wake.wait()


def _describe(change: Added[T] | Updated[T] | Deleted[T]) -> str:
    obj = change.new if isinstance(change, Updated) else change.obj
    version = obj.metadata.resource_version
    return f"{type(change).__name__.lower()} {ObjectKey.of(obj)} (version {version})"
