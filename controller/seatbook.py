"""The seats of a ledger are booked and released by one worker of this process after the other, as a rule.

Compare-and-swap is what keeps processes apart, and needs no order. Workers of one process would only race
each other with it: of ten that are woken for the room on one claim, nine lose every round, and the oldest may
be beaten as often as it tries. So they take turns, in order of coming. Nobody waits for long, since a turn
whose requests hang must not keep the others from their work: who has waited for `TURN_SECONDS`, in however
long a queue, goes on without a turn and may race the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

import anyio

from ledger.api import LedgerApi
from ledger.book import Booked, Contended, Recheck, Refused, Released, SeatBook
from ledger.state import SeatRef
from ledger.transitions import Booking

TURN_SECONDS = 5.0
"""How long a turn is waited for, all turns before it included: many answers of a server that is well."""


class SeatBookInTurn(SeatBook):
    """A `SeatBook` whose calls on one claim wait for each other, though not for ever."""

    def __init__(self, api: LedgerApi, new_assignment_id: Callable[[], str]) -> None:
        super().__init__(api, new_assignment_id)
        # Only claims on which somebody has the turn, or waits for it.
        self._turns: dict[str, anyio.Lock] = {}

    async def join(self, claim: str, booking: Booking, *, recheck: Recheck) -> Booked | Refused | Contended:
        """As the `SeatBook` does, in turn."""
        async with self._turn(claim):
            return await super().join(claim, booking, recheck=recheck)

    async def found(self, claim: str, booking: Booking) -> Booked | Refused | Contended:
        """As the `SeatBook` does, in turn."""
        async with self._turn(claim):
            return await super().found(claim, booking)

    async def repair(
        self, claim: str, booking: Booking, *, recheck: Recheck | None = None
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
        lock = self._turns.setdefault(claim, anyio.Lock())
        has_turn = False
        try:
            with anyio.move_on_after(TURN_SECONDS):
                await lock.acquire()
                has_turn = True
            yield
        finally:
            if has_turn:
                lock.release()
            left = lock.statistics()
            # One that was cancelled while it waited may come here when others have a lock of their own.
            if not left.locked and not left.tasks_waiting and self._turns.get(claim) is lock:
                del self._turns[claim]
