"""Contract §5.9: assign a worker without a claim, by the placement strategy.

`binpack` books a seat first, and creates an own claim if no ledger accepts the worker. `spread` creates an
own claim first. The order of writes is seat, claim, status; the Pod follows in contract §5.10.
"""

from __future__ import annotations

from enum import Enum, auto

from controller.api.documents import claim_document
from controller.api.dra import ResourceClaim
from controller.api.reasons import Phase
from controller.api.status import Assignment, PlacementDetails, StatusUpdate
from controller.api.workload import Workload
from controller.config.settings import PlacementStrategy
from controller.reconcile import commit, reporting, seat_booker
from controller.reconcile.context import (
    DONE,
    ContendedError,
    ReconcileContext,
    WorkloadScope,
    own_claim_names,
)
from informers.api import ObjectKey
from informers.errors import AlreadyExists, OutcomeUnknown, ServerError
from informers.queue.runner import Result
from ledger.book import Booked, Contended, Refused
from ledger.state import CLAIM_LEDGERS_KIND, ClaimLedger
from ledger.transitions import RefusalReason
from placement.device_request import device_requests
from placement.quantity import whole_gib
from placement.types import DeviceShape, PlacementRequest


class ClaimNameState(Enum):
    """The use of a name that a worker's own claim may have."""

    OPEN = auto()
    """No claim, or a live claim with its ledger: the ledger decides."""
    ENDING = auto()
    """A claim that is ending and used by nobody else: wait for it."""
    OTHERS = auto()
    """A claim of others, or one that is ending while others use it: try the next name."""


async def assign(context: ReconcileContext, scope: WorkloadScope) -> Result | None:
    """Find a claim for a worker without one, and commit it."""
    if scope.pod is not None or scope.workload.status.claim_name:
        return None
    if scope.request is None:
        # The claim is gone and the spec is no longer valid: the next reconcile validates it.
        context.requeue(scope.workload)
        return DONE
    assigned = await _assign(context, scope.workload, scope.request)
    if assigned is None:
        return context.retry
    scope.workload, scope.committed = assigned, True
    return None


async def _assign(
    context: ReconcileContext, workload: Workload, request: PlacementRequest
) -> Workload | None:
    """Return the Workload with its committed assignment; `None` if it waits and its status says why."""
    adopted = await seat_booker.adopt_seat(context, workload)
    if adopted is not None:
        return await _commit(context, workload, request, adopted)
    seat_first = context.settings.placement_strategy is PlacementStrategy.BINPACK
    if seat_first and request.shareable:
        joined = await _join(context, workload, request)
        if joined is not None:
            return joined
    return await _create_own_claim(context, workload, request)


async def _join(context: ReconcileContext, workload: Workload, request: PlacementRequest) -> Workload | None:
    """Book a seat and commit it; `None` if no ledger accepts this worker."""
    booked = await seat_booker.book_seat(context, workload, request)
    return None if booked is None else await _commit(context, workload, request, booked)


async def _create_own_claim(
    context: ReconcileContext, workload: Workload, request: PlacementRequest
) -> Workload | None:
    """Create a dedicated claim: first the ledger with the creator's seat, then the claim and the status."""
    if context.caches.device_classes.store.get(ObjectKey("", context.settings.device_class)) is None:
        await reporting.missing_device_class(context, workload)
        return None
    shapes = context.fleet.device_shapes(request)
    if not shapes:
        await reporting.wait_for_capacity(context, workload, request)
        return None
    for name in own_claim_names(workload):
        state = _name_state(context, workload, name)
        if state is ClaimNameState.ENDING:
            return await _join_or_wait(context, workload, request, name)
        created = None
        if state is ClaimNameState.OPEN:
            created = await _create_ledger(context, workload, name)
        if created is None:
            continue
        ledger, booked = created
        state = await _create_claim(context, name, ledger, shapes, request)
        if state is ClaimNameState.OPEN:
            return await _commit(context, workload, request, booked)
        workload = await commit.undo_booking(context, workload, booked)
        if state is ClaimNameState.ENDING:
            return await _join_or_wait(context, workload, request, name)
    raise ContendedError(workload.name)


def _name_state(context: ReconcileContext, workload: Workload, name: str) -> ClaimNameState:
    """Return whether a claim of this name can be created or continued, according to the caches."""
    claim, ledger = context.claim(name), context.ledger(name)
    if claim is None or (ledger is not None and claim.owned_by(ledger.metadata.uid) and not claim.deleting):
        return ClaimNameState.OPEN
    users = [seat.workload_uid for seat in (ledger.seats if ledger is not None else ())]
    users += [pod.workload_uid for pod in context.ledgers.live_pods(name)]
    return ClaimNameState.OTHERS if any(uid != workload.uid for uid in users) else ClaimNameState.ENDING


async def _join_or_wait(
    context: ReconcileContext, workload: Workload, request: PlacementRequest, name: str
) -> Workload | None:
    """Wait until an earlier claim of this worker has ended, unless a seat elsewhere accepts the worker."""
    joined = await _join(context, workload, request)
    if joined is None:
        await reporting.wait_for_predecessor_claim(context, workload, name)
    return joined


async def _create_ledger(
    context: ReconcileContext, workload: Workload, name: str
) -> tuple[ClaimLedger, Assignment] | None:
    """Create the ledger of a new claim, or continue with our own; `None` if only others hold it."""
    match await context.book.create(name, context.requests.seat_request(workload)):
        case Booked(ledger, seat):
            return ledger, Assignment(name, seat.assignment_id)
        case Refused(refusal) if refusal.reason is RefusalReason.FOREIGN:
            return None
        case Refused() | Contended():
            raise ContendedError(name)


async def _create_claim(
    context: ReconcileContext,
    name: str,
    ledger: ClaimLedger,
    shapes: tuple[DeviceShape, ...],
    request: PlacementRequest,
) -> ClaimNameState:
    """Create the ledger's claim; returns `OPEN` if it exists now, else the state of its name."""
    settings = context.settings
    requests = device_requests(
        shapes,
        memory_bytes=request.memory_bytes,
        device_class=settings.device_class,
        driver=settings.device_driver,
    )
    document = claim_document(name, settings.namespace, ledger.metadata.uid, requests)
    try:
        await context.writer.create_claim(document)
    except (AlreadyExists, OutcomeUnknown, ServerError) as error:
        # After a crash or a lost answer it may be ours already.
        claim = await context.live.claim(name)
        if claim is None:
            raise ContendedError(name) from error
        return _existing_claim_state(claim, ledger)
    return ClaimNameState.OPEN


def _existing_claim_state(claim: ResourceClaim, ledger: ClaimLedger) -> ClaimNameState:
    """Return what an existing claim means for a ledger that was just created for its name."""
    if claim.deleting:
        return ClaimNameState.ENDING
    if claim.owned_by(ledger.metadata.uid):
        return ClaimNameState.OPEN
    # With a deleted ledger as owner it is being garbage collected. Without one it is not ours, and stays.
    had_ledger = any(owner.kind == CLAIM_LEDGERS_KIND for owner in claim.metadata.owner_references)
    return ClaimNameState.ENDING if had_ledger else ClaimNameState.OTHERS


async def _commit(
    context: ReconcileContext, workload: Workload, request: PlacementRequest, booked: Assignment
) -> Workload:
    update = StatusUpdate(
        phase=Phase.PLACING,
        reason=context.booked_reason(workload, booked.claim),
        assignment=booked,
        details=PlacementDetails(memory_per_device=whole_gib(request.memory_bytes)),
    )
    return await commit.commit(context, workload, update, booked)
