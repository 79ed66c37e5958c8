"""Take a seat: choose, reserve, book, and try the next ledger with room until one accepts or none is left.

Choosing and reserving happen in one step of the loop, so that two workers of this process never choose the
same last seat or the same host memory; a booking can then only lose to another process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio

from controller.api.status import Assignment
from controller.api.workload import Workload
from controller.queue.activation import reservation_of
from controller.reconcile.context import ReconcileContext
from informers.api import ObjectKey
from ledger.book import Booked, Contended, Refused
from ledger.state import ClaimLedger
from ledger.transitions import Refusal, RefusalReason, SeatRequest
from placement.types import PlacementRequest, SeatInfo, SeatOffer


class ContendedError(Exception):
    """Other writers won every try on a ledger: the worker is retried with back-off and cuts no claim."""


class YieldedError(Exception):
    """An older worker that waits could take the seat: it goes first, and this one looks again after it."""


class SeatBooker:
    """Books seats for one controller.

    What it returns is booked, under an assignment ID that was never used before, and no status names it yet.
    """

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        # Bookings under way in this process, by worker UID: (claim, reservation).
        self._under_way: dict[str, tuple[str, SeatInfo]] = {}
        self._settled = anyio.Event()

    async def take(self, workload: Workload, request: PlacementRequest) -> Assignment | None:
        """Book the best seat that accepts this worker; `None` if none does.

        Raises `YieldedError` where an older waiter goes first, `ContendedError` where others won every try.
        """
        refused = list(self._context.local_state.refused.of(workload.uid))
        while True:
            # Each booking that loses reads a ledger anew, and may show what another process did for us.
            adopted = await self.adopt(workload)
            if adopted is not None:
                return adopted
            offer = self._choose(workload, request, refused)
            if offer is not None:
                booked = await self._book(workload, request, offer)
                if booked is not None:
                    return booked
                refused.append(offer.claim_uid)
            elif self._only_reserved(request, refused):
                await self._settled.wait()
            else:
                return None

    async def adopt(self, workload: Workload) -> Assignment | None:
        """Take over a seat of this worker that no status names, by claim name; `None` if there is none.

        It may be another process's booking on its way to the commit, or one from before a crash: it is
        adopted where its claim lives and accepts it, under a fresh assignment ID (contract §4).
        """
        for name, _ in self._context.seats(workload):
            claim = self._context.claim(name)
            owner = self._claim_owner(name)
            if claim is None or claim.deleting or owner is None or name == workload.status.claim_name:
                continue
            if claim.metadata.uid in self._context.local_state.refused.of(workload.uid):
                continue
            if workload.status.claim_name and not claim.allocated:
                # It has a claim that waits already: another one like that is no better.
                continue
            booking = self._context.requests.seat_request(workload, claim_owner_uid=owner)
            answer = await self._context.book.join(name, booking, recheck=_no_recheck)
            if isinstance(answer, Contended):
                raise ContendedError(name)
            if isinstance(answer, Booked):
                return Assignment(name, answer.seat.assignment_id)
        return None

    def _choose(self, workload: Workload, request: PlacementRequest, refused: list[str]) -> SeatOffer | None:
        """Choose and reserve, without a pause in between."""
        offer = self._context.fleet.select(request, refused)
        if offer is None:
            return None
        if self._older_waiter_fits(workload):
            raise YieldedError(workload.name)
        reservation = reservation_of(request)
        self._context.fleet.reserve(offer.claim, reservation)
        self._under_way[request.worker_uid] = (offer.claim, reservation)
        return offer

    def _only_reserved(self, request: PlacementRequest, refused: list[str]) -> bool:
        """Whether nothing but bookings under way stands between this worker and a seat.

        One of them may lose to another process; until that is known, cutting a claim would be too early.
        """
        fleet = self._context.fleet
        for claim, reservation in self._under_way.values():
            fleet.cancel_reservation(claim, reservation.assignment_id)
        offer = fleet.select(request, refused)
        for claim, reservation in self._under_way.values():
            fleet.reserve(claim, reservation)
        return offer is not None

    async def _book(
        self, workload: Workload, request: PlacementRequest, offer: SeatOffer
    ) -> Assignment | None:
        booking = self._context.requests.seat_request(
            workload, claim_owner_uid=self._claim_owner(offer.claim)
        )
        try:
            recheck = self._recheck(request, offer)
            answer = await self._context.book.join(offer.claim, booking, recheck=recheck)
            vouched = await self._vouched(workload, booking, answer)
            if vouched is not None:
                answer = await self._context.book.join(offer.claim, vouched, recheck=recheck)
        finally:
            # A booked seat is in the cache by now and counts there; anything else counts no more.
            _, reservation = self._under_way.pop(request.worker_uid)
            self._context.fleet.cancel_reservation(offer.claim, reservation.assignment_id)
            self._settled.set()
            self._settled = anyio.Event()
        if isinstance(answer, Contended):
            raise ContendedError(answer.claim)
        if not isinstance(answer, Booked):
            return None
        return Assignment(offer.claim, answer.seat.assignment_id)

    async def _vouched(
        self, workload: Workload, booking: SeatRequest, answer: Booked | Refused | Contended
    ) -> SeatRequest | None:
        """The booking again, where a predecessor's seat is in its way and fresh reads show that one gone."""
        if not isinstance(answer, Refused) or answer.refusal.reason is not RefusalReason.PREDECESSOR:
            return None
        holder = answer.refusal.holder
        live = await self._context.live.workload(workload.name)
        pod = await self._context.live.pod_of(workload.name)
        if holder is None or live is None or live.uid != workload.uid:
            return None
        if pod is not None and pod.owned_by(holder.workload_uid):
            return None
        return replace(booking, gone_predecessor_uid=holder.workload_uid)

    def _recheck(
        self, request: PlacementRequest, offer: SeatOffer
    ) -> Callable[[ClaimLedger], Refusal | None]:
        """Ask everything again for a version of the ledger that was read anew and is in the cache now."""
        reservation = reservation_of(request)

        def check(ledger: ClaimLedger) -> Refusal | None:
            if any(seat.workload_uid == request.worker_uid for seat in ledger.seats):
                # Another process booked for this worker meanwhile: that seat is adopted, not added to.
                return None
            # Our own reservation must not count against us.
            self._context.fleet.cancel_reservation(offer.claim, reservation.assignment_id)
            failed = self._context.fleet.check(request, offer.claim)
            if failed is None:
                self._context.fleet.reserve(offer.claim, reservation)
                return None
            return Refusal(RefusalReason.NOT_ELIGIBLE, f"{ledger.claim_name}: {failed.value}")

        return check

    def _claim_owner(self, claim: str) -> str | None:
        """UID of the ledger that owns the claim, as the claim shows it."""
        found = self._context.claim(claim)
        ledger = self._context.ledger(claim)
        if found is None or ledger is None:
            return None
        uids = [owner.uid for owner in found.metadata.owner_references]
        return ledger.metadata.uid if ledger.metadata.uid in uids else next(iter(uids), None)

    def _older_waiter_fits(self, workload: Workload) -> bool:
        """Whether an older worker that was woken, and not looked at since, could take a seat now."""
        key = ObjectKey.of(workload)
        for older_key in self._context.scheduling_queue.older_activated(key, workload.creation_order):
            older = self._context.caches.workloads.store.get(older_key)
            if older is not None and self._may_take_a_seat(older):
                return True
        return False

    def _may_take_a_seat(self, older: Workload) -> bool:
        claim = self._context.claim(older.status.claim_name) if older.status.claim_name else None
        if claim is not None and claim.allocated:
            return False
        request = self._context.requests.of(older)
        refused = self._context.local_state.refused.of(older.uid)
        return (
            request is not None
            and request.shareable
            and self._context.fleet.select(request, refused) is not None
        )


def _no_recheck(_: ClaimLedger) -> Refusal | None:
    """A seat that is there already takes no more host memory than it did."""
    return None
