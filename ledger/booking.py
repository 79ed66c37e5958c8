"""Booking and releasing seats by compare-and-swap (contract §4).

The first try uses the cached ledger, so a booking without contention costs one request. Every further try
starts with a live read and checks everything again: the rules, the live Pods, and the caller's recheck. The
number of tries is bounded. This module does not wait and has no clock.

Invariants: every write is conditional on the version that it was decided on. A missing answer is resolved by
a read. A ledger is deleted only at a version without seats, and its claim only after the ledger. The caller
handles reservations, the worker's status and its Pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace

from ledger.api import LedgerApi, LedgerConflict, LedgerError, LedgerOutcomeUnknown
from ledger.claim_names import ledger_name
from ledger.seat_rules import (
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
from ledger.state import ClaimLedger, Seat, SeatRef

MAX_TRIES = 5
"""Writes that one booking or release attempts before it is contended."""

Recheck = Callable[[ClaimLedger], Refusal | None]
"""The caller's check (host memory, node, device) before a write on this version."""


@dataclass(frozen=True, slots=True)
class Booked:
    """The worker has this seat. `wrote` is True if this call wrote it."""

    ledger: ClaimLedger
    seat: Seat
    wrote: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """The ledger refuses the worker. A write without an answer may still leave an unrecorded seat."""

    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Contended:
    """Other writers changed the ledger in every try. Retry with back-off, and create no claim until then."""

    claim: str


@dataclass(frozen=True, slots=True)
class Released:
    """The named seats no longer exist. `retired` is True if the ledger no longer exists either."""

    retired: bool
    ledger: ClaimLedger | None = field(default=None, compare=False, repr=False)
    """The remaining ledger. It may have other seats of the same workers."""


@dataclass(slots=True)
class SeatBookStatistics:
    """Counts since the start of the process."""

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
    """Writes whose answer was lost."""
    released: int = 0
    """Seats removed."""
    retired: int = 0
    """Ledgers deleted."""


@dataclass(slots=True)
class _Booking:
    """A booking in progress."""

    claim: str
    request: SeatRequest
    purpose: BookingPurpose
    ref: SeatRef
    """Identity of the seat that the booking writes."""
    recheck: Recheck | None
    unanswered: bool = False
    """Whether a write of this booking has taken effect without an answer, or still may."""


class SeatBook:
    """The seats of all claims in one namespace. Calls may run concurrently, also on one claim.

    `new_assignment_id` returns a unique ID (a UUID). `lock(claim)` is held during each call on that claim.
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
        """Return a copy of the counts."""
        return replace(self._statistics)

    async def join(
        self, claim: str, request: SeatRequest, *, recheck: Recheck
    ) -> Booked | Refused | Contended:
        """Book a seat on a claim of other workers.

        `recheck` must not count the worker's own seat or reservation. A refusal may be based on the cache
        alone: the caller chooses another claim.
        """
        return await self._book(claim, request, BookingPurpose.JOIN, recheck)

    async def create(self, claim: str, request: SeatRequest) -> Booked | Refused | Contended:
        """Create the ledger of the worker's own new claim, with the worker's seat.

        If the ledger already has the seat (from before a crash), the booking continues with it. On
        `RefusalReason.FOREIGN` the caller tries the next name (`claim_names.own_claim_name`).
        """
        return await self._book(claim, request, BookingPurpose.CREATE, None)

    async def repair(
        self, claim: str, request: SeatRequest, *, recheck: Recheck | None = None
    ) -> Booked | Refused | Contended:
        """Restore a lost seat under its recorded assignment, on a live claim whose ledger may be lost too.

        If this call created the ledger (`Booked.ledger` has another UID than the claim's owner reference),
        the caller updates the owner reference first. A missing ledger skips `recheck`.
        """
        return await self._book(claim, request, BookingPurpose.REPAIR, recheck)

    async def release(self, claim: str, releases: Collection[SeatRef]) -> Released | Contended:
        """Release exactly these seats. If no seat remains, retire the ledger and the claim that it owns.

        The caller guarantees by a live read that no Pod of these UIDs is on the claim, or that it has ended.
        A late create may still add such a Pod while a write is retried. Once the cache shows the Pod, its
        seat stays and the release is `Contended`. A release of no seats retires an empty ledger and does
        nothing else. A repeated call continues where an earlier one stopped.
        """
        async with self._lock(claim):
            name = ledger_name(claim)
            ledger = self._api.cached(name)
            if ledger is None or not all(ledger.holds(ref) for ref in releases):
                # The cache may not show a seat yet.
                ledger = await self._api.read(name)
            for _ in range(MAX_TRIES):
                if ledger is None:
                    return Released(retired=True)
                step = release(ledger, releases)
                if isinstance(step, NothingToRelease):
                    return Released(retired=False, ledger=ledger)
                if isinstance(step, SeatsRemain):
                    if self._has_live_pod(claim, step.removed):
                        break
                    written = await self._write(claim, ledger, step.seats)
                    if isinstance(written, LedgerError):
                        ledger = await self._api.read(name)
                        continue
                    self._statistics.released += len(step.removed)
                    ledger = written
                if ledger.seats or keeps_claim(self._api.live_pods(claim), releases):
                    return Released(retired=False, ledger=ledger)
                ledger = await self._retire(claim, ledger)
            self._statistics.contended += 1
            return Contended(claim)

    def _has_live_pod(self, claim: str, releases: Collection[SeatRef]) -> bool:
        """Return whether the cache shows a Pod on the claim of a worker whose seat is about to be removed."""
        uids = {ref.workload_uid for ref in releases}
        return any(pod.workload_uid in uids for pod in self._api.live_pods(claim))

    async def _book(
        self, claim: str, request: SeatRequest, purpose: BookingPurpose, recheck: Recheck | None
    ) -> Booked | Refused | Contended:
        async with self._lock(claim):
            assignment_id = request.recorded_assignment_id or self._new_assignment_id()
            ref = SeatRef(request.workload, request.workload_uid, assignment_id)
            result = await self._try(_Booking(claim, request, purpose, ref, recheck))
        if isinstance(result, Booked):
            self._statistics.booked += result.wrote
            self._statistics.adopted += not result.wrote
            return result
        if isinstance(result, Refused):
            self._statistics.refused += 1
            return result
        self._statistics.contended += 1
        return Contended(claim)

    async def _try(self, booking: _Booking) -> Booked | Refused | Grant:
        """Decide and write until a version has the seat or refuses it. A final `Grant` means contention."""
        name = ledger_name(booking.claim)
        ledger = self._api.cached(name)
        decision = self._decide(ledger, booking)
        if isinstance(decision, Refused) and booking.purpose is not BookingPurpose.JOIN:
            # This refusal would cost the worker its claim's name or its Pod. A stale cache must not cause it.
            ledger = await self._api.read(name)
            decision = self._decide(ledger, booking)
        for _ in range(MAX_TRIES):
            if isinstance(decision, Booked | Refused):
                break
            written = await self._write(booking.claim, ledger, decision.seats)
            if not isinstance(written, LedgerError):
                return self._booked(written, booking, wrote=True)
            booking.unanswered |= isinstance(written, LedgerOutcomeUnknown)
            ledger = await self._api.read(name)
            decision = self._decide(ledger, booking)
        return decision

    def _decide(self, ledger: ClaimLedger | None, booking: _Booking) -> Booked | Refused | Grant:
        """Return what one version of the ledger means for the booking: a result, or seats to write."""
        if booking.unanswered and ledger is not None and ledger.holds(booking.ref):
            return self._booked(ledger, booking, wrote=True)
        grant = book(
            ledger,
            booking.request,
            self._api.live_pods(booking.claim),
            purpose=booking.purpose,
            assignment_id=booking.ref.assignment_id,
        )
        if isinstance(grant, Refusal):
            return Refused(grant)
        if ledger is not None and not grant.writes:
            # If the assignment is fresh, an earlier copy of this booking's write has taken effect.
            return self._booked(ledger, booking, wrote=not booking.request.recorded_assignment_id)
        refusal = booking.recheck(ledger) if ledger is not None and booking.recheck is not None else None
        return grant if refusal is None else Refused(refusal)

    def _booked(self, ledger: ClaimLedger, booking: _Booking, *, wrote: bool) -> Booked:
        """Return the booking with the seat as the ledger shows it."""
        for seat in ledger.seats:
            if seat.ref == booking.ref:
                return Booked(ledger, seat, wrote)
        raise AssertionError(f"{ledger} accepted the seat {booking.ref} and does not show it")

    async def _write(
        self, claim: str, ledger: ClaimLedger | None, seats: Sequence[Seat]
    ) -> ClaimLedger | LedgerError:
        """Write seats on exactly this version, or create a ledger with them. Return the error on failure."""
        try:
            if ledger is None:
                return await self._api.create(claim, seats)
            return await self._api.write_seats(ledger, seats)
        except LedgerError as error:
            unanswered = isinstance(error, LedgerOutcomeUnknown)
            self._statistics.unanswered += unanswered
            self._statistics.conflicts += not unanswered
            return error

    async def _retire(self, claim: str, empty: ClaimLedger) -> ClaimLedger | None:
        """Delete a ledger at the version that showed it empty, then the claim that it owns.

        Return the current ledger if an earlier booking prevented its deletion. The claim's UID is read
        while the ledger exists: afterwards another creator may use the name.
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
        """Delete the claim of a deleted ledger. Without an answer, leave it to garbage collection."""
        for _ in range(MAX_TRIES):
            try:
                return await self._api.delete_claim(claim, uid)
            except LedgerOutcomeUnknown:
                self._statistics.unanswered += 1
                if await self._api.read_claim_uid(claim, ledger_uid) != uid:
                    return None
        return None
