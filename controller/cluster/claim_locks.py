"""The seats of a ledger are booked and released by one worker of this process after the other, as a rule.

Compare-and-swap is what keeps processes apart, and needs no order. Workers of one process would only race
each other with it: of ten that are woken for the room on one claim, nine lose every round, and the oldest may
be beaten as often as it tries. So they take turns, in order of coming. A turn whose requests hang must not
keep the next one from its work: after `TURN_SECONDS` that one goes on beside it, and may race it. So the k-th
in line waits for k times that at most, and no longer than its reconcile may last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from controller.runtime import logs
from ledger.api import LedgerApi
from ledger.book import Booked, Contended, Recheck, Refused, Released, SeatBook
from ledger.state import SeatRef
from ledger.transitions import SeatRequest

_log = logs.get_logger(__name__)

TURN_SECONDS = 5.0
"""How long a turn keeps the next one waiting: many answers of a server that is well."""


def _ended() -> anyio.Event:
    event = anyio.Event()
    event.set()
    return event


@dataclass
class _Turns:
    """Who has the turn on one claim, and who comes next."""

    line: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    """Held by the next one while it waits for the turn; the others wait for this, in order of coming."""
    ended: anyio.Event = field(default_factory=_ended)
    """Set when the turn that was taken last has ended."""
    until_seconds: float = 0.0
    """When that turn is waited for no longer, in loop time."""

    @property
    def unused(self) -> bool:
        """Whether nobody has the turn or waits for it."""
        return self.ended.is_set() and not self.line.locked()

    async def wait(self) -> bool:
        """Wait until the last turn has ended, or has lasted too long; whether it has ended."""
        if not self.ended.is_set():
            with anyio.CancelScope(deadline=self.until_seconds):
                await self.ended.wait()
        return self.ended.is_set()

    def take(self) -> anyio.Event:
        """Begin a turn; the caller sets the event when it ends."""
        self.ended = anyio.Event()
        self.until_seconds = anyio.current_time() + TURN_SECONDS
        return self.ended


class SeatBookInTurn(SeatBook):
    """A `SeatBook` whose calls on one claim wait for each other, though not for ever."""

    def __init__(self, api: LedgerApi, new_assignment_id: Callable[[], str]) -> None:
        super().__init__(api, new_assignment_id)
        # Only claims on which somebody has the turn, or waits for it.
        self._turns: dict[str, _Turns] = {}

    async def join(
        self, claim: str, booking: SeatRequest, *, recheck: Recheck
    ) -> Booked | Refused | Contended:
        """As the `SeatBook` does, in turn."""
        async with self._turn(claim):
            return await super().join(claim, booking, recheck=recheck)

    async def create(self, claim: str, booking: SeatRequest) -> Booked | Refused | Contended:
        """As the `SeatBook` does, in turn."""
        async with self._turn(claim):
            return await super().create(claim, booking)

    async def repair(
        self, claim: str, booking: SeatRequest, *, recheck: Recheck | None = None
    ) -> Booked | Refused | Contended:
        """As the `SeatBook` does, in turn."""
        async with self._turn(claim):
            return await super().repair(claim, booking, recheck=recheck)

    async def release(self, claim: str, releases: Collection[SeatRef]) -> Released | Contended:
        """As the `SeatBook` does, in turn."""
        async with self._turn(claim):
            return await super().release(claim, releases)

    @asynccontextmanager
    async def _turn(self, claim: str) -> AsyncIterator[None]:
        turns = self._turns.setdefault(claim, _Turns())
        mine = _ended()
        try:
            async with turns.line:
                if not await turns.wait():
                    _log.warning("Passed a turn on that takes long", claim=claim, seconds=TURN_SECONDS)
                mine = turns.take()
            yield
        finally:
            mine.set()
            # One that was cancelled while it waited may come here when others have turns of their own.
            if turns.unused and self._turns.get(claim) is turns:
                del self._turns[claim]
