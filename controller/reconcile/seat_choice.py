"""Booking of a seat: choose, reserve, book, and try the next ledger until one accepts or none is left.

Choosing and reserving are one step without an await, so that two workers of this process never choose the
same last seat or the same host memory. A booking can then only lose to another process.

A returned assignment is booked under a new assignment ID, and no status names it yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio

from controller.api import convert
from controller.api.status import Assignment
from controller.api.workload import Workload
from controller.cluster.caches import is_pod_of
from controller.queue.activation import reservation_of
from controller.reconcile.context import ContendedError, ReconcileContext
from informers.api import ObjectKey
from ledger.booking import Booked, Contended, Refused
from ledger.seat_rules import Refusal, RefusalReason, SeatRequest
from ledger.state import ClaimLedger
from placement.types import PlacementRequest, Refusals, SeatOffer


class YieldedError(Exception):
    """An older waiting worker fits the seat and books first. This worker is requeued."""


async def book_seat(
    context: ReconcileContext, workload: Workload, request: PlacementRequest
) -> Assignment | None:
    """Book the best seat that accepts this worker; `None` if none does.

    Raises `YieldedError` if an older worker goes first, `ContendedError` if others won every attempt.
    """
    refusals = context.local_state.place_holds.refusals(workload.uid)
    while True:
        # A booking that lost has read a ledger, which may show a seat booked by another process.
        adopted = await adopt_seat(context, workload)
        if adopted is not None:
            return adopted
        offer = context.fleet.select(request, refusals)
        if offer is None:
            if not _only_reserved(context, request, refusals):
                return None
            await context.local_state.pending_bookings.ended.wait()
            continue
        if _older_waiting_worker_fits(context, workload):
            raise YieldedError(workload.name)
        reservation = reservation_of(request)
        context.fleet.reserve(offer.claim, reservation)
        context.local_state.pending_bookings.reservations[request.worker_uid] = (offer.claim, reservation)
        booked = await book_offer(context, workload, request, offer)
        if booked is not None:
            return booked
        refusals = replace(refusals, claims=refusals.claims | {offer.claim_uid})


async def adopt_seat(context: ReconcileContext, workload: Workload) -> Assignment | None:
    """Adopt the first seat of this worker, by claim name, that no status names; `None` if there is none.

    The seat may be another process's uncommitted booking, or from before a crash. It is adopted under a new
    assignment ID if its claim is live and accepts the worker (contract §4).
    """
    refusals = context.local_state.place_holds.refusals(workload.uid)
    if not refusals.may_join:
        return None
    for name in context.seats(workload):
        claim = context.claim(name)
        owner_uid = claim_owner_uid(context, name)
        if claim is None or claim.deleting or owner_uid is None or name == workload.status.claim_name:
            continue
        if claim.metadata.uid in refusals.claims or convert.claim_node(claim) in refusals.nodes:
            continue
        if workload.status.claim_name and not claim.allocated:
            # Another pending claim is no better than the one that the worker has.
            continue
        seat_request = context.requests.seat_request(workload, claim_owner_uid=owner_uid)
        with context.local_state.pending_bookings.answered(workload.uid, name):
            answer = await context.book.join(name, seat_request, recheck=_only_existing(workload))
        if isinstance(answer, Contended):
            raise ContendedError(name)
        if isinstance(answer, Booked):
            return Assignment(name, answer.seat.assignment_id)
    return None


def _only_existing(workload: Workload) -> Callable[[ClaimLedger], Refusal | None]:
    """Return a check that accepts only a seat of this worker that the ledger has already.

    Such a seat needs no more host memory than before. A new one would have to pass every check.
    """

    def check(ledger: ClaimLedger) -> Refusal | None:
        if any(seat.workload_uid == workload.uid for seat in ledger.seats):
            return None
        return Refusal(RefusalReason.NOT_ELIGIBLE, f"{ledger.claim_name}: the seat is gone")

    return check


def _only_reserved(context: ReconcileContext, request: PlacementRequest, refusals: Refusals) -> bool:
    """Return whether only pending bookings of this process keep the worker from a seat.

    One of them may still lose to another process, so creating a claim now would be too early.
    """
    fleet, pending = context.fleet, context.local_state.pending_bookings.reservations.values()
    for claim, reservation in pending:
        fleet.cancel_reservation(claim, reservation.assignment_id)
    offer = fleet.select(request, refusals)
    for claim, reservation in pending:
        fleet.reserve(claim, reservation)
    return offer is not None


async def book_offer(
    context: ReconcileContext, workload: Workload, request: PlacementRequest, offer: SeatOffer
) -> Assignment | None:
    """Book a reserved seat; `None` if its ledger refuses the worker."""
    owner_uid = claim_owner_uid(context, offer.claim)
    seat_request = context.requests.seat_request(workload, claim_owner_uid=owner_uid)
    recheck = recheck_of(context, request, offer.claim)
    pending = context.local_state.pending_bookings
    try:
        with pending.answered(workload.uid, offer.claim):
            answer = await context.book.join(offer.claim, seat_request, recheck=recheck)
            if isinstance(answer, Refused):
                holder = await _gone_predecessor(context, workload, answer.refusal)
                if holder is not None:
                    seat_request = replace(seat_request, gone_predecessor_uid=holder)
                    answer = await context.book.join(offer.claim, seat_request, recheck=recheck)
    finally:
        # The cache already shows and counts a booked seat; a failed booking no longer counts.
        end_booking(context, request)
    if isinstance(answer, Contended):
        raise ContendedError(answer.claim)
    return Assignment(offer.claim, answer.seat.assignment_id) if isinstance(answer, Booked) else None


async def restore_seat(
    context: ReconcileContext, request: PlacementRequest, claim: str, seat_request: SeatRequest
) -> Booked | Refused | Contended:
    """Book a lost seat again, for a worker without a Pod, if it could still join the claim."""
    reservation = reservation_of(request)
    context.fleet.reserve(claim, reservation)
    try:
        return await context.book.repair(claim, seat_request, recheck=recheck_of(context, request, claim))
    finally:
        context.fleet.cancel_reservation(claim, reservation.assignment_id)


def end_booking(context: ReconcileContext, request: PlacementRequest) -> None:
    """Cancel the reservation of a booking that was answered."""
    pending = context.local_state.pending_bookings
    claim, reservation = pending.reservations.pop(request.worker_uid)
    context.fleet.cancel_reservation(claim, reservation.assignment_id)
    pending.ended.set()
    pending.ended = anyio.Event()


async def _gone_predecessor(context: ReconcileContext, workload: Workload, refusal: Refusal) -> str | None:
    """Return the UID of a predecessor whose seat is in the way, if live reads show that it is gone."""
    if refusal.reason is not RefusalReason.PREDECESSOR:
        return None
    live = await context.read_live(workload)
    pod = await context.live.pod_of(workload.name)
    if refusal.holder is None or live is None:
        return None
    uid = refusal.holder.workload_uid
    return None if pod is not None and is_pod_of(pod, uid) else uid


def recheck_of(
    context: ReconcileContext, request: PlacementRequest, claim: str
) -> Callable[[ClaimLedger], Refusal | None]:
    """Return the check that repeats the selection for a newly read version of the ledger."""
    reservation = reservation_of(request)

    def check(ledger: ClaimLedger) -> Refusal | None:
        if any(seat.workload_uid == request.worker_uid for seat in ledger.seats):
            # Another process has booked a seat for this worker: that seat is adopted.
            return None
        # Our own reservation must not count against us.
        context.fleet.cancel_reservation(claim, reservation.assignment_id)
        failed = context.fleet.check(request, claim)
        if failed is None:
            context.fleet.reserve(claim, reservation)
            return None
        return Refusal(RefusalReason.NOT_ELIGIBLE, f"{ledger.claim_name}: {failed.value}")

    return check


def claim_owner_uid(context: ReconcileContext, name: str) -> str | None:
    """Return the UID of the ledger that owns the claim, according to the claim."""
    claim, ledger = context.claim(name), context.ledger(name)
    if claim is None or ledger is None:
        return None
    uids = [owner.uid for owner in claim.metadata.owner_references]
    return ledger.metadata.uid if ledger.metadata.uid in uids else next(iter(uids), None)


def _older_waiting_worker_fits(context: ReconcileContext, workload: Workload) -> bool:
    """Return whether an older worker that is activated, but not reconciled yet, fits a seat now."""
    key = ObjectKey.of(workload)
    for older_key in context.scheduling_queue.older_activated(key, workload.creation_order):
        older = context.caches.workloads.store.get(older_key)
        claim = context.claim(older.status.claim_name) if older is not None else None
        if older is None or (claim is not None and claim.allocated):
            continue
        request = context.requests.of(older)
        refusals = context.local_state.place_holds.refusals(older.uid)
        if request and request.shareable and context.fleet.select(request, refusals) is not None:
            return True
    return False
