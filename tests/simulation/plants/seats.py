"""Bugs planted in the seat protocol: `ledger`, its port, and the steps that book and release seats."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import ledger.booking
from controller.api import convert
from controller.api.core import OwnedObject
from controller.api.dra import ResourceClaim
from controller.api.status import Assignment
from controller.api.workload import Workload
from controller.cluster import ledger_client
from controller.cluster.caches import CLAIM_LEDGERS
from controller.reconcile import seat_choice
from controller.reconcile.context import ReconcileContext
from ledger import seat_rules
from ledger.booking import Booked, Released, SeatBook
from ledger.claim_names import ledger_name
from ledger.seat_rules import BookingPurpose, Grant, LivePod, Refusal, SeatRequest
from ledger.state import ClaimLedger, Seat, SeatRef, seats_patch
from tests.simulation.plants.plant import replaced

NO_LIMIT = 256


def limit_for_joiners_only() -> AbstractContextManager[None]:
    """Only joins obey the limit; creation and repair ignore it."""

    def book(
        ledger: ClaimLedger | None,
        request: SeatRequest,
        live_pods: Sequence[LivePod],
        *,
        purpose: BookingPurpose,
        assignment_id: str,
    ) -> Grant | Refusal:
        if purpose is not BookingPurpose.JOIN:
            request = replace(request, seat_limit=NO_LIMIT)
        return seat_rules.book(ledger, request, live_pods, purpose=purpose, assignment_id=assignment_id)

    return replaced(ledger.booking, "book", book)


def claim_adopted_by_name() -> AbstractContextManager[None]:
    """A claim belongs to any ledger, whatever UID its owner reference has."""

    correct = OwnedObject.owned_by

    def owned_by(owned: OwnedObject, uid: str) -> bool:
        if not isinstance(owned, ResourceClaim):
            return correct(owned, uid)
        return any(owner.kind == CLAIM_LEDGERS.kind for owner in owned.metadata.owner_references)

    return replaced(OwnedObject, "owned_by", owned_by)


def seats_written_without_version() -> AbstractContextManager[None]:
    """The patch of a ledger lacks the version that the decision was based on."""

    def patch(ledger: ClaimLedger, seats: Sequence[Seat]) -> dict[str, Any]:
        return {"spec": seats_patch(ledger, seats)["spec"]}

    return replaced(ledger_client, "seats_patch", patch)


def release_on_the_cached_version() -> AbstractContextManager[None]:
    """A release uses the cached ledger, and ignores a conflict with another write."""

    async def release(book: SeatBook, claim: str, releases: Collection[SeatRef]) -> Released:
        shown = book._api.cached(ledger_name(claim))
        step = seat_rules.release(shown, releases) if shown is not None else None
        if shown is not None and isinstance(step, seat_rules.SeatsRemain):
            written = await book._write(claim, shown, step.seats)
            if isinstance(written, ClaimLedger) and not written.seats:
                await book._retire(claim, written)
        elif shown is not None and isinstance(step, seat_rules.LedgerEmpty):
            await book._retire(claim, shown)
        return Released(retired=False)

    return replaced(SeatBook, "release", release)


def release_by_name() -> AbstractContextManager[None]:
    """A release removes the worker's seat under any assignment ID."""

    def release(
        ledger: ClaimLedger, releases: Collection[SeatRef]
    ) -> seat_rules.SeatsRemain | seat_rules.NothingToRelease | seat_rules.LedgerEmpty:
        names = {ref.workload for ref in releases}
        named = [seat.ref for seat in ledger.seats if seat.workload in names]
        return seat_rules.release(ledger, named)

    return replaced(ledger.booking, "release", release)


def adopted_under_its_old_assignment() -> AbstractContextManager[None]:
    """A seat that no status names is adopted unchanged, without a write."""

    async def adopt_seat(context: ReconcileContext, workload: Workload) -> Assignment | None:
        for name, refs in context.seats(workload).items():
            claim, owner_uid = context.claim(name), seat_choice.claim_owner_uid(context, name)
            if claim is None or claim.deleting or owner_uid is None or name == workload.status.claim_name:
                continue
            if convert.claim_node(claim) in context.local_state.place_holds.refusals(workload.uid).nodes:
                continue
            if workload.status.claim_name and not claim.allocated:
                continue
            seat_request = context.requests.seat_request(
                workload, claim_owner_uid=owner_uid, recorded=refs[0].assignment_id
            )
            answer = await context.book.join(name, seat_request, recheck=lambda _: None)
            if isinstance(answer, Booked):
                return Assignment(name, answer.seat.assignment_id)
        return None

    return replaced(seat_choice, "adopt_seat", adopt_seat)
