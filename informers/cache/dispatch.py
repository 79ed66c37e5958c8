"""Delivery of a store's changes to handlers, so that no handler can hold up the store or another handler.

A queued handler has an unbounded queue and a task of its own, which delivers one change and then yields to
other tasks. An inline handler is called in the same step that changed the store. Use it for in-memory indexes
that must never lag behind the store. (Only the changes of a long list can lag, because they are delivered in
slices.)

Each handler receives all changes, in the order in which the store reports them. A handler that raises is
logged and counted, and receives the next change. Calls are synchronous: a handler that does not return
promptly blocks the event loop, which no queue can prevent.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from typing import Final, Generic, NoReturn

import anyio
import anyio.lowlevel

from informers.api import ObjectKey, T
from informers.cache.changes import Change, ChangeCallback, Synced, Transition

BACKLOG_WARNING: Final = 1024
"""Number of pending changes that is logged as a warning: the initial size of client-go's buffer."""

logger = logging.getLogger(__name__)


class Registration(ABC, Generic[T]):
    """One handler of one informer. `name` and `subject` (the resource) appear in logs and errors."""

    def __init__(self, name: str, subject: str, callback: ChangeCallback[T]) -> None:
        self.name = name
        self._subject = subject
        self._callback = callback
        self._synced = anyio.Event()
        self.failures = 0
        """Changes on which the handler raised."""

    def __str__(self) -> str:
        return f"{self.name} of {self._subject}"

    @property
    def has_synced(self) -> bool:
        """Whether the handler has received all objects that existed when it was added."""
        return self._synced.is_set()

    @property
    def backlog(self) -> int:
        """Changes not delivered yet."""
        return 0

    @abstractmethod
    def offer(self, change: Change[T]) -> None:
        """Deliver `change` now or later. Never raises."""

    async def wait_synced(self) -> None:
        """Return once `has_synced` is true."""
        await self._synced.wait()

    def _deliver(self, change: Change[T]) -> None:
        if isinstance(change, Synced):
            self._synced.set()
            return
        try:
            self._callback(change.old, change.new)
        except Exception:
            self.failures += 1
            logger.exception("Handler failed", extra={"handler": str(self)} | _describe(change))


class InlineRegistration(Registration[T]):
    """A handler that is called in the step that changes the store."""

    def offer(self, change: Change[T]) -> None:
        """Call the handler."""
        self._deliver(change)


class QueuedRegistration(Registration[T]):
    """A handler that is called from its own task, `run`."""

    def __init__(self, name: str, subject: str, callback: ChangeCallback[T]) -> None:
        super().__init__(name, subject, callback)
        self._queue: deque[Change[T]] = deque()
        self._offered = anyio.Event()
        self._warned = False

    @property
    def backlog(self) -> int:
        """Changes not delivered yet."""
        return len(self._queue)

    def offer(self, change: Change[T]) -> None:
        """Queue `change` for `run`."""
        self._queue.append(change)
        self._offered.set()
        # A backlog is expected during the first list; a later one means that the handler cannot keep up.
        if self.has_synced and len(self._queue) > BACKLOG_WARNING and not self._warned:
            self._warned = True
            logger.warning("Handler fell behind", extra={"handler": str(self), "backlog": len(self._queue)})

    async def run(self) -> NoReturn:
        """Deliver changes until cancelled, one per iteration of the event loop."""
        while True:
            while self._queue:
                self._deliver(self._queue.popleft())
                await anyio.lowlevel.checkpoint()
            self._warned = False
            self._offered = anyio.Event()
            await self._offered.wait()


def _describe(change: Transition[T]) -> dict[str, str]:
    obj = change.old if change.new is None else change.new
    kind = "deleted" if change.new is None else "added" if change.old is None else "updated"
    if obj is None:
        return {"change": kind}
    return {"change": kind, "key": str(ObjectKey.of(obj)), "version": obj.metadata.resource_version}
