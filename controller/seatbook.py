"""The seats of a ledger are booked and released by one worker of this process at a time, in order of coming.

Compare-and-swap is what keeps processes apart, and needs no order. Workers of one process would only race
each other with it: of ten that are woken for the room on one claim, nine lose every round, and the oldest may
be beaten as often as it tries. So they take turns. A turn lasts as long as the requests of one booking, whose
time is bounded; nobody has two turns at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

import anyio

from ledger.api import LedgerApi
from ledger.book import Booked, Contended, Recheck, Refused, Released, SeatBook
from ledger.state import SeatRef
from ledger.transitions import Booking


class SeatBookInTurn(SeatBook):
    """A `SeatBook` whose calls on one claim wait for each other."""

    def __init__(self, api: LedgerApi, new_assignment_id: Callable[[], str]) -> None:
        super().__init__(api, new_assignment_id)
        # Only claims on which somebody has the turn.
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
        try:
            async with lock:
                yield
        finally:
            waiting = lock.statistics()
            if not waiting.locked and not waiting.tasks_waiting:
                self._turns.pop(claim, None)
