"""Contract §5.6: repair what a crash, a manual edit or another process left inconsistent.

The running process takes precedence: a live Pod's assignment overrides the status if its claim is live, and a
lost seat is booked again under the Pod's assignment. Repair never evicts another worker. It removes nothing
before live reads agree, because a cache may lag behind another process's move.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.api.claim_document import is_own_claim
from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.reasons import ReasonCode, sentence
from controller.api.status import Assignment, StatusUpdate, assignment_of
from controller.api.workload import Workload
from controller.observe.counters import RepairKind
from controller.reconcile import reporting, seat_choice, teardown
from controller.reconcile.context import ContendedError, ReconcileContext, Scope, own_claim_names
from controller.reconcile.worker_pods import PodOwnership, assignment_on, is_left, ownership_of
from informers.errors import Conflict, NotFound
from informers.queue.runner import Result
from ledger.booking import Booked, Contended
from ledger.claim_names import is_claim_name
from ledger.state import ClaimLedger, SeatRef


async def repair(context: ReconcileContext, scope: Scope) -> Result | None:
    """Make status and ledger, and the Pod if there is one, name the same assignment.

    A Pod that the worker has left can never run. It has no precedence, and its seat stays booked until it is
    gone.
    """
    left = scope.pod
    if left is None or not is_left(left, scope.workload):
        return await _repair_assignment(context, scope)
    scope.pod = None
    result = await _repair_assignment(context, scope, left.claim_names)
    scope.pod = left
    return result


async def _repair_assignment(
    context: ReconcileContext, scope: Scope, left_claims: Collection[str] = ()
) -> Result | None:
    workload, pod = scope.workload, scope.pod
    if pod is not None and assignment_on(pod, workload) != assignment_of(workload):
        await _reconcile_pod_and_status(context, workload)
        return await _wait(context, scope)
    if not workload.status.claim_name:
        return None
    claim = context.claim(workload.status.claim_name)
    if claim is None or not is_own_claim(claim) or (claim.deleting and not (pod is not None and pod.bound)):
        return await _replace_lost_claim(context, scope)
    if not _has_seat(context, workload, claim):
        return await _restore_seat(context, scope, claim)
    scope.workload = await _release_unrecorded_seat(context, workload, left_claims)
    return None


async def _wait(context: ReconcileContext, scope: Scope) -> Result:
    """End the reconcile after a repair. An event will follow, such as the end of the Pod."""
    pod = context.pod(scope.workload)
    if pod is None or pod.metadata.deletion_timestamp is None:
        return context.retry
    return await reporting.wait_for_pod_gone(context, scope.workload, pod)


async def _reconcile_pod_and_status(context: ReconcileContext, workload: Workload) -> None:
    """Copy the Pod's assignment to the status, or delete the Pod if its assignment is not valid."""
    pod = await context.live.pod_of(workload.name)
    live = await context.read_live(workload)
    if pod is None or live is None or ownership_of(pod, live) is not PodOwnership.OURS:
        # The live reads have updated the caches.
        return context.requeue(workload)
    assignment = assignment_on(pod, live)
    if assignment == assignment_of(live) or is_left(pod, live):
        return context.requeue(workload)
    if await _is_valid(context, live, pod, assignment):
        await context.report(live, StatusUpdate(assignment=assignment))
        context.counters.record_repair(RepairKind.STATUS)
        return context.requeue(workload)
    if pod.metadata.deletion_timestamp is None:
        await context.writer.delete_pod(pod)
        context.counters.record_repair(RepairKind.POD)
    return None


async def _is_valid(context: ReconcileContext, workload: Workload, pod: Pod, assignment: Assignment) -> bool:
    """Return whether the claim is live, and the status names nothing or the claim's ledger has the seat."""
    if not is_claim_name(assignment.claim) or not assignment.assignment_id:
        return False
    claim = await context.live.claim(assignment.claim)
    if claim is None or (claim.deleting and not pod.bound):
        return False
    if not workload.status.claim_name:
        return True
    ledger = await context.live.ledger_of(assignment.claim)
    ref = SeatRef(workload.name, workload.uid, assignment.assignment_id)
    return ledger is not None and ledger.holds(ref)


async def _replace_lost_claim(context: ReconcileContext, scope: Scope) -> Result | None:
    """Clear the assignment of a worker whose claim is gone, so that it is placed again."""
    name = scope.workload.status.claim_name
    claim = await context.live.claim(name)
    if claim is not None and is_own_claim(claim) and not claim.deleting:
        # The cache lags, or the claim lost its label: the worker keeps it.
        await context.writer.label_claim(claim)
        context.counters.record_repair(RepairKind.LABEL)
        context.requeue(scope.workload)
        return await _wait(context, scope)
    return await _clear(context, scope, ReasonCode.WAITING_FOR_CAPACITY, f"{name} is gone")


async def _clear(
    context: ReconcileContext, scope: Scope, code: ReasonCode, detail: str, message: str | None = None
) -> Result | None:
    """Delete the Pod and wait; without a Pod, clear the status and release the seat."""
    pod = scope.pod
    if pod is None:
        scope.workload = await teardown.clear(context, scope.workload, code, detail, message=message)
        return None
    if pod.metadata.deletion_timestamp is None and await context.writer.delete_pod(pod):
        context.requeue(scope.workload)
    return await _wait(context, scope)


def _has_seat(context: ReconcileContext, workload: Workload, claim: ResourceClaim) -> bool:
    """Return whether the ledger that owns the claim holds exactly the recorded seat."""
    ledger = context.ledger(claim.metadata.name)
    ref = SeatRef(workload.name, workload.uid, workload.status.assignment_id)
    return ledger is not None and claim.owned_by(ledger.metadata.uid) and ledger.holds(ref)


async def _restore_seat(context: ReconcileContext, scope: Scope, claim: ResourceClaim) -> Result | None:
    """Book the recorded assignment again. If the ledger refuses it, the worker is placed again.

    A live read comes first: another process may be releasing this very seat for a deletion that this cache
    does not show yet.
    """
    workload = scope.workload
    recorded = assignment_of(workload)
    live = await context.read_live(workload)
    if live is None or assignment_of(live) != recorded:
        raise ContendedError(workload.name)
    if live.deleting or live.terminal:
        context.requeue(workload)
        return await _wait(context, scope)
    request = context.requests.seat_request(workload, recorded=recorded.assignment_id, pod=scope.pod)
    if scope.request is None or scope.pod is not None or recorded.claim in own_claim_names(workload):
        answer = await context.book.repair(recorded.claim, request)
    else:
        answer = await seat_choice.restore_seat(context, scope.request, recorded.claim, request)
    if isinstance(answer, Contended):
        raise ContendedError(recorded.claim)
    if isinstance(answer, Booked):
        if answer.wrote:
            context.counters.record_repair(RepairKind.SEAT)
        await _repoint(context, claim, answer.ledger)
        return None
    context.counters.record_repair(RepairKind.SEAT_REFUSED)
    detail = f"the seat on {recorded.claim} is taken"
    message = f"{sentence(ReasonCode.SEAT_LOST, detail)}: {answer.refusal.text}"
    return await _clear(context, scope, ReasonCode.SEAT_LOST, detail, message)


async def _repoint(context: ReconcileContext, claim: ResourceClaim, ledger: ClaimLedger) -> None:
    """Make a recreated ledger the owner of its live claim, before garbage collection deletes the claim.

    It reads the claim live, because a lagging cache would cause conflicts and retries.
    """
    if claim.owned_by(ledger.metadata.uid):
        return
    live = await context.live.claim(claim.metadata.name)
    if live is None or live.metadata.uid != claim.metadata.uid:
        raise ContendedError(claim.metadata.name)
    try:
        await context.writer.set_claim_owner(live, ledger)
        context.counters.record_repair(RepairKind.OWNER)
    except (Conflict, NotFound) as error:
        raise ContendedError(claim.metadata.name) from error


async def _release_unrecorded_seat(
    context: ReconcileContext, workload: Workload, left_claims: Collection[str]
) -> Workload:
    """Release a seat that the status does not name, after a fencing write against the booking process."""
    recorded = {workload.status.claim_name, *left_claims}
    seats = context.seats(workload)
    unrecorded = [(claim, ref) for claim, refs in seats.items() for ref in refs if claim not in recorded]
    if not unrecorded:
        return workload
    live = await context.read_live(workload)
    if live is None or live.deleting or live.terminal:
        return workload
    if assignment_of(live) != assignment_of(workload):
        return live
    claim, ref = unrecorded[0]
    note = f"releasing the seat on {claim} under assignment {ref.assignment_id}"
    fenced = await context.fencing_write(live, note)
    await teardown.release_if_pod_gone(context, fenced, claim, [ref])
    context.counters.record_repair(RepairKind.STRAY)
    if len(unrecorded) > 1:
        context.requeue(fenced)
    return fenced
