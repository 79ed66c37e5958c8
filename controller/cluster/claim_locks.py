"""Locks that, as a rule, serialize this process's bookings and releases on one claim.

Between processes, compare-and-swap is enough, and needs no order. Within one process it would only cause
races: of ten workers activated for one free seat, nine lose every round, and the oldest may lose each time.
These locks are granted in order of arrival.

A holder whose requests hang must not block the next one. After `HOLD_SECONDS` the next holder proceeds
concurrently and may race with it. The k-th waiter therefore waits at most k times that long, and never longer
than its reconcile may last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from controller.runtime import logs

_log = logs.get_logger(__name__)

HOLD_SECONDS = 5.0
"""How long one holder keeps the next one waiting: enough for many answers of a healthy server."""


def _set_event() -> anyio.Event:
    event = anyio.Event()
    event.set()
    return event


@dataclass
class _ClaimLock:
    queue: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    """Held by the next holder while it waits; all later ones wait for this, in order of arrival."""
    released: anyio.Event = field(default_factory=_set_event)
    """Set when the latest holder has released the lock."""
    deadline_seconds: float = 0.0
    """When the next holder stops waiting for that, in loop time."""

    @property
    def unused(self) -> bool:
        """Whether there is neither a holder nor a waiter."""
        return self.released.is_set() and not self.queue.locked()

    async def wait(self) -> bool:
        """Wait for the latest holder until its deadline; return whether it released the lock."""
        if not self.released.is_set():
            with anyio.CancelScope(deadline=self.deadline_seconds):
                await self.released.wait()
        return self.released.is_set()

    def acquire(self) -> anyio.Event:
        """Become the holder. The caller sets the returned event to release the lock."""
        self.released = anyio.Event()
        self.deadline_seconds = anyio.current_time() + HOLD_SECONDS
        return self.released


class ClaimLocks:
    """One lock per claim, granted in order of arrival. Every wait is bounded."""

    def __init__(self) -> None:
        # Only claims whose lock has a holder or a waiter.
        self._locks: dict[str, _ClaimLock] = {}

    @asynccontextmanager
    async def hold(self, claim: str) -> AsyncIterator[None]:
        """Hold the lock of a claim while the block runs."""
        lock = self._locks.setdefault(claim, _ClaimLock())
        released = _set_event()
        try:
            async with lock.queue:
                if not await lock.wait():
                    _log.warning("Stopped waiting for claim lock", claim=claim, seconds=HOLD_SECONDS)
                released = lock.acquire()
            yield
        finally:
            released.set()
            # A waiter that was cancelled may arrive here while others hold a newer lock of this claim.
            if lock.unused and self._locks.get(claim) is lock:
                del self._locks[claim]
