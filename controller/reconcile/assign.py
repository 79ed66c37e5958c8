"""Contract §5.9: assign a worker without a claim, by the placement strategy.

`binpack` tries to book a seat first, and creates the worker's own claim if no ledger accepts it. `spread`
tries to create the worker's own claim first, and so does a worker that a place has just refused. The order of
writes is seat, claim, status; the Pod follows in contract §5.10.
"""

from __future__ import annotations

from enum import Enum, auto

from controller.api.claim_document import is_own_claim
from controller.api.dra import ResourceClaim
from controller.api.reasons import Phase
from controller.api.status import Assignment, PlacementDetails, StatusUpdate
from controller.api.workload import Workload
from controller.config.flags import PlacementStrategy
from controller.reconcile import commit, reporting, seat_choice
from controller.reconcile.admission import refused_workers
from controller.reconcile.admission.own_claim import own_claim_document
from controller.reconcile.context import ContendedError, ReconcileContext, Scope, own_claim_names
from informers.errors import AlreadyExists, OutcomeUnknown, ServerError
from informers.queue.runner import Result
from ledger.booking import Booked, Refused
from ledger.seat_rules import RefusalReason
from ledger.state import CLAIM_LEDGERS_KIND, ClaimLedger
from placement.quantity import whole_gib
from placement.types import PlacementRequest


class ClaimNameState(Enum):
    """The use of a name that a worker's own claim may have."""

    OPEN = auto()
    """No claim, or a live claim with its ledger: the ledger decides."""
    ENDING = auto()
    """A claim that is ending and used by nobody else: wait for it."""
    OTHERS = auto()
    """A claim of others, or one that is ending while others use it: try the next name."""


async def assign(context: ReconcileContext, scope: Scope) -> Result | None:
    """Book a seat or create a claim for a worker without one, and commit the assignment."""
    request = scope.request
    if scope.pod is not None or scope.workload.status.claim_name:
        return None
    if request is None:
        # The claim is gone and the spec is no longer valid: the next reconcile validates it.
        context.requeue(scope.workload)
        return Result()
    holds = context.local_state.place_holds
    is_binpack = context.settings.placement_strategy is PlacementStrategy.BINPACK
    seat_first = is_binpack and request.shareable and not holds.asks_first(scope.workload.uid)
    booked = await seat_choice.adopt_seat(context, scope.workload)
    if booked is None and seat_first:
        booked = await seat_choice.book_seat(context, scope.workload, request)
    if booked is None and await refused_workers.report_held(context, scope.workload):
        if not seat_first and request.shareable:
            booked = await seat_choice.book_seat(context, scope.workload, request)
        if booked is None:
            holds.record_asked(scope.workload.uid)
            return refused_workers.wait(context, scope.workload) or context.retry
    if booked is None:
        booked = await _create_own_claim(context, scope, request)
    if booked is None:
        holds.record_asked(scope.workload.uid)
        return context.retry
    update = StatusUpdate(
        phase=Phase.PLACING,
        reason=context.booked_reason(scope.workload, booked.claim),
        assignment=booked,
        details=PlacementDetails(memory_per_device=whole_gib(request.memory_bytes)),
    )
    scope.workload = await commit.commit(context, scope.workload, update, booked)
    scope.committed = True
    return None


async def _create_own_claim(
    context: ReconcileContext, scope: Scope, request: PlacementRequest
) -> Assignment | None:
    """Create the ledger of the worker's own claim with the worker's seat, then the claim.

    Returns `None` if the worker waits, with the reason in its status.
    """
    if reporting.lacks_device_class(context):
        await reporting.report_no_capacity(context, scope.workload, request)
        return None
    for name in own_claim_names(scope.workload):
        state = _cached_name_state(context, scope.workload, name)
        if state is ClaimNameState.OPEN:
            answer = await context.book.create(name, context.requests.seat_request(scope.workload))
            if isinstance(answer, Refused) and answer.refusal.reason is RefusalReason.FOREIGN:
                continue
            if not isinstance(answer, Booked):
                raise ContendedError(name)
            booked = Assignment(name, answer.seat.assignment_id)
            state = await _create_claim(context, name, answer.ledger, request)
            if state is ClaimNameState.OPEN:
                return booked
            scope.workload = await commit.undo_booking(context, scope.workload, booked)
        if state is ClaimNameState.ENDING:
            # The earlier claim of this worker may take long to end; a seat elsewhere does not wait for it.
            context.local_state.place_holds.record_asked(scope.workload.uid)
            joined = await seat_choice.book_seat(context, scope.workload, request)
            if joined is None:
                await reporting.report_predecessor_claim(context, scope.workload, name)
            return joined
    raise ContendedError(scope.workload.name)


def _cached_name_state(context: ReconcileContext, workload: Workload, name: str) -> ClaimNameState:
    """Return whether a claim of this name can be created or continued, according to the caches."""
    claim, ledger = context.claim(name), context.ledger(name)
    if claim is None or (ledger is not None and claim.owned_by(ledger.metadata.uid) and not claim.deleting):
        return ClaimNameState.OPEN
    if not claim.deleting and not is_own_claim(claim):
        return ClaimNameState.OTHERS
    users = [seat.workload_uid for seat in (ledger.seats if ledger is not None else ())]
    users += [pod.workload_uid for pod in context.ledgers.live_pods(name)]
    return ClaimNameState.OTHERS if any(uid != workload.uid for uid in users) else ClaimNameState.ENDING


async def _create_claim(
    context: ReconcileContext, name: str, ledger: ClaimLedger, request: PlacementRequest
) -> ClaimNameState:
    """Create the ledger's claim; returns `OPEN` if the claim now exists, else the state of its name."""
    document = own_claim_document(context, name, ledger.metadata.uid, request)
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
    """Return the name state that an existing claim implies for a ledger just created under its name."""
    if claim.deleting:
        return ClaimNameState.ENDING
    if claim.owned_by(ledger.metadata.uid):
        return ClaimNameState.OPEN
    # If its owner is a deleted ledger, it is being garbage collected. Without an owner it is not ours.
    had_ledger = any(owner.kind == CLAIM_LEDGERS_KIND for owner in claim.metadata.owner_references)
    return ClaimNameState.ENDING if had_ledger else ClaimNameState.OTHERS
