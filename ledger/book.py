"""Booking and releasing seats by compare-and-swap: the effectful half of contract §4.

The first try starts from the cached ledger, so that an undisturbed booking is one request. Every further
try starts from a fresh read and asks everything again: the rules, the live Pods, the caller's own check.
Tries are bounded; there is no waiting in here, and no clock.

Invariants: every write is conditional on the version it was decided from; an answer that is missing is
resolved by reading back, never guessed; a claim is deleted after its ledger, and a ledger only on a
version that showed it empty. Reservations, the worker's status and its Pod are the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum

from ledger.api import LedgerApi, LedgerConflict, LedgerError, LedgerOutcomeUnknown
from ledger.names import ledger_name
from ledger.state import ClaimLedger, Seat, SeatRef
from ledger.transitions import (
    BookingPurpose,
    Grant,
    NothingToRelease,
    Refusal,
    SeatRequest,
    SeatsRemain,
    book,
    keeps_claim,
    release,
)

MAX_TRIES = 5
"""Writes that one booking or release attempts before it is contended."""

Recheck = Callable[[ClaimLedger], Refusal | None]
"""The caller's own check (host memory, node, device) against a version that is about to be written."""


@dataclass(frozen=True, slots=True)
class Booked:
    """The worker has this seat; `wrote` where this call booked it."""

    ledger: ClaimLedger
    seat: Seat
    wrote: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """The ledger does not take the worker. A write without an answer may still land: then it is a stray."""

    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Contended:
    """Others changed the ledger in every try: retry later with back-off, and cut no claim because of it."""

    claim: str


@dataclass(frozen=True, slots=True)
class Released:
    """None of the named seats is there any more. `retired`: neither is the ledger."""

    retired: bool
    ledger: ClaimLedger | None = field(default=None, compare=False, repr=False)
    """The ledger as it was left: it may hold other bookings of the same workers."""


@dataclass(slots=True)
class SeatBookStatistics:
    """Counts since the start."""

    booked: int = 0
    """Bookings that wrote a seat."""
    adopted: int = 0
    """Bookings that found their seat and wrote nothing."""
    refused: int = 0
    contended: int = 0
    """Bookings and releases that gave up after `MAX_TRIES`."""
    conflicts: int = 0
    """Writes that lost to another writer."""
    unanswered: int = 0
    """Writes whose answer was lost and read back."""
    released: int = 0
    """Seats removed."""
    retired: int = 0
    """Ledgers deleted."""


class _Miss(Enum):
    """Why a write has no result."""

    BEATEN = "beaten"
    """Another writer came first, or the same write, sent twice beneath the port."""
    UNANSWERED = "unanswered"
    """It took effect, or did not, or still may."""


@dataclass(slots=True)
class _Ticket:
    """One booking under way."""

    claim: str
    booking: SeatRequest
    purpose: BookingPurpose
    assignment_id: str
    recheck: Recheck | None
    unanswered: bool = False
    """A write of ours may have taken effect, or still may."""

    @property
    def ref(self) -> SeatRef:
        """The seat that this ticket writes."""
        return SeatRef(self.booking.workload, self.booking.workload_uid, self.assignment_id)


class SeatBook:
    """The seats of all claims of one namespace. Calls may run concurrently, also on one claim.

    `new_assignment_id` returns an ID that was never used before (a UUID). `lock(claim)` is held during each
    call on that claim.
    """

    def __init__(
        self,
        api: LedgerApi,
        new_assignment_id: Callable[[], str],
        lock: Callable[[str], AbstractAsyncContextManager[object]] = nullcontext,
    ) -> None:
        self._api = api
        self._new_assignment_id = new_assignment_id
        self._lock = lock
        self._statistics = SeatBookStatistics()

    def statistics(self) -> SeatBookStatistics:
        """A copy of the counts."""
        return replace(self._statistics)

    def __repr__(self) -> str:
        counts = self._statistics
        return (
            f"<SeatBook booked={counts.booked} adopted={counts.adopted} refused={counts.refused} "
            f"contended={counts.contended} released={counts.released} retired={counts.retired}>"
        )

    async def join(
        self, claim: str, booking: SeatRequest, *, recheck: Recheck
    ) -> Booked | Refused | Contended:
        """Take a seat on a claim that others hold.

        `recheck` must not count the worker's own seat or reservation against it. A refusal may rest on the
        cache alone: the caller chooses another claim.
        """
        return await self._settle(claim, booking, BookingPurpose.JOIN, recheck)

    async def create(self, claim: str, booking: SeatRequest) -> Booked | Refused | Contended:
        """Open the ledger of the worker's own, new claim, with the worker's seat in it.

        A ledger that already holds it (from before a crash) is gone on from. `RefusalReason.FOREIGN`: only
        others hold a claim of this name, take the next (`names.founding_claim_name`).
        """
        return await self._settle(claim, booking, BookingPurpose.CREATE, None)

    async def repair(
        self, claim: str, booking: SeatRequest, *, recheck: Recheck | None = None
    ) -> Booked | Refused | Contended:
        """Get a lost seat back under the recorded assignment, on a live claim whose ledger may be gone too.

        After a ledger was created here (`Booked.ledger` has a UID that the claim's owner reference has not)
        the caller re-points the claim first thing. `recheck` is skipped where there is no ledger.
        """
        return await self._settle(claim, booking, BookingPurpose.REPAIR, recheck)

    async def release(self, claim: str, releases: Collection[SeatRef]) -> Released | Contended:
        """Give back exactly these seats; where no seat is left, retire the ledger and the claim it owned.

        The caller vouches, by a read past the cache, that no Pod of these UIDs is on the claim any more or
        that it has ended. One may come all the same while a write is tried again (a create that lands late):
        once the cache shows it, its seat stays, and the release is `Contended`. Naming no seat retires a
        ledger that has none, and nothing else. May be called again at any time: it goes on from wherever an
        earlier call stopped.
        """
        async with self._lock(claim):
            return await self._release(claim, releases)

    async def _release(self, claim: str, releases: Collection[SeatRef]) -> Released | Contended:
        name = ledger_name(claim)
        ledger = self._api.cached(name)
        if ledger is None or not all(ledger.holds(ref) for ref in releases):
            # A cache that does not show a seat yet must not leave it behind.
            ledger = await self._api.read(name)
        for _ in range(MAX_TRIES):
            if ledger is None:
                return Released(retired=True)
            step = release(ledger, releases)
            if isinstance(step, NothingToRelease):
                return Released(retired=False, ledger=ledger)
            if isinstance(step, SeatsRemain):
                if self._has_come_back(claim, step.removed):
                    break
                written = await self._write(claim, ledger, step.seats)
                if isinstance(written, _Miss):
                    ledger = await self._api.read(name)
                    continue
                self._statistics.released += len(step.removed)
                ledger = written
            if ledger.seats or keeps_claim(self._api.live_pods(claim), releases):
                return Released(retired=False, ledger=ledger)
            ledger = await self._retire(claim, ledger)
        self._statistics.contended += 1
        return Contended(claim)

    def _has_come_back(self, claim: str, leaving: Collection[SeatRef]) -> bool:
        """Whether the cache shows a Pod on the claim of a worker that is about to lose its seat there."""
        uids = {ref.workload_uid for ref in leaving}
        return any(pod.workload_uid in uids for pod in self._api.live_pods(claim))

    async def _settle(
        self, claim: str, booking: SeatRequest, purpose: BookingPurpose, recheck: Recheck | None
    ) -> Booked | Refused | Contended:
        async with self._lock(claim):
            assignment_id = booking.recorded_assignment_id or self._new_assignment_id()
            return await self._book(_Ticket(claim, booking, purpose, assignment_id, recheck))

    async def _book(self, ticket: _Ticket) -> Booked | Refused | Contended:
        """Decide and write until one version of the ledger holds the seat, or refuses it."""
        name = ledger_name(ticket.claim)
        ledger = self._api.cached(name)
        decision = self._decide(ledger, ticket)
        if isinstance(decision, Refused) and ticket.purpose is not BookingPurpose.JOIN:
            # Being refused here costs the worker its name or its Pod: not because of what a cache shows.
            ledger = await self._api.read(name)
            decision = self._decide(ledger, ticket)
        for _ in range(MAX_TRIES):
            if isinstance(decision, Booked | Refused):
                break
            written = await self._write(ticket.claim, ledger, decision.seats)
            if not isinstance(written, _Miss):
                decision = self._booked(written, ticket, wrote=True)
                break
            ticket.unanswered |= written is _Miss.UNANSWERED
            ledger = await self._api.read(name)
            decision = self._decide(ledger, ticket)
        return self._counted(decision, ticket)

    def _decide(self, ledger: ClaimLedger | None, ticket: _Ticket) -> Booked | Refused | Grant:
        """What one version of the ledger means for a booking: settled, or something to write on it."""
        if ticket.unanswered and ledger is not None and ledger.holds(ticket.ref):
            return self._booked(ledger, ticket, wrote=True)
        grant = book(
            ledger,
            ticket.booking,
            self._api.live_pods(ticket.claim),
            purpose=ticket.purpose,
            assignment_id=ticket.assignment_id,
        )
        if isinstance(grant, Refusal):
            return Refused(grant)
        if ledger is not None and not grant.writes:
            # A fresh assignment that is there already is a write of ours, sent twice beneath the port.
            return self._booked(ledger, ticket, wrote=not ticket.booking.recorded_assignment_id)
        if ledger is not None and ticket.recheck is not None:
            refusal = ticket.recheck(ledger)
            if refusal is not None:
                return Refused(refusal)
        return grant

    def _booked(self, ledger: ClaimLedger, ticket: _Ticket, *, wrote: bool) -> Booked:
        """The booking as a ledger shows it, after a read as after a write."""
        for seat in ledger.seats:
            if seat.ref == ticket.ref:
                return Booked(ledger, seat, wrote)
        raise AssertionError(f"{ledger} took the seat {ticket.ref} and does not show it")

    def _counted(self, decision: Booked | Refused | Grant, ticket: _Ticket) -> Booked | Refused | Contended:
        """Count how a booking ended; one that still has something to write is contended."""
        if isinstance(decision, Booked):
            self._statistics.booked += decision.wrote
            self._statistics.adopted += not decision.wrote
            return decision
        if isinstance(decision, Refused):
            self._statistics.refused += 1
            return decision
        self._statistics.contended += 1
        return Contended(ticket.claim)

    async def _write(
        self, claim: str, ledger: ClaimLedger | None, seats: Sequence[Seat]
    ) -> ClaimLedger | _Miss:
        """Write seats on exactly this version, or create the ledger with them where there is none."""
        try:
            if ledger is None:
                return await self._api.create(claim, seats)
            return await self._api.write_seats(ledger, seats)
        except LedgerOutcomeUnknown:
            self._statistics.unanswered += 1
            return _Miss.UNANSWERED
        except LedgerError:
            self._statistics.conflicts += 1
            return _Miss.BEATEN

    async def _retire(self, claim: str, empty: ClaimLedger) -> ClaimLedger | None:
        """Delete a ledger on the version that showed it empty, then the claim that it owned.

        Returns the ledger as it stands where it was not deleted: a booking that came first keeps it. The
        claim's UID is read while the ledger exists: later the name may be another founder's.
        """
        claim_uid = await self._api.read_claim_uid(claim, empty.metadata.uid)
        try:
            await self._api.delete(empty)
            self._statistics.retired += 1
        except LedgerError as error:
            self._statistics.unanswered += isinstance(error, LedgerOutcomeUnknown)
            self._statistics.conflicts += isinstance(error, LedgerConflict)
            current = await self._api.read(empty.metadata.name)
            if current is not None and current.metadata.uid == empty.metadata.uid:
                return current
        if claim_uid is not None:
            await self._delete_claim(claim, claim_uid, empty.metadata.uid)
        return None

    async def _delete_claim(self, claim: str, uid: str, ledger_uid: str) -> None:
        """Delete the claim of a ledger that is gone. One that never answers is left to garbage collection."""
        for _ in range(MAX_TRIES):
            try:
                return await self._api.delete_claim(claim, uid)
            except LedgerOutcomeUnknown:
                self._statistics.unanswered += 1
                if await self._api.read_claim_uid(claim, ledger_uid) != uid:
                    return None
        return None
