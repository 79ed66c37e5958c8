"""Contract §5.8: fall back to sharing.

kube-scheduler is the capacity probe. Only its condition `Unschedulable` on the Pod of an unallocated claim
triggers the fallback; there is no timer.
"""

from __future__ import annotations

from controller.api.core import Pod
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.status import PlacedUpdate, StatusUpdate, assignment_of
from controller.api.workload import Workload
from controller.reconcile import commit, reporting, seat_choice, teardown, worker_pods
from controller.reconcile.context import ContendedError, ReconcileContext, Scope, own_claim_names
from informers.errors import Conflict
from informers.queue.runner import Result
from placement.types import PlacementRequest


async def fall_back(context: ReconcileContext, scope: Scope) -> Result | None:
    """Move a worker whose Pod fits nowhere to a seat, or clear its assignment for a better claim.

    If neither helps, it waits with its pending claim, which is the autoscaler's signal.
    """
    workload, pod, request = scope.workload, scope.pod, scope.request
    claim = context.claim(workload.status.claim_name)
    if pod is None or claim is None or claim.allocated or not worker_pods.is_unschedulable(pod):
        return None
    if request is None:
        return context.retry
    name = claim.metadata.name
    if name in own_claim_names(workload):
        context.local_state.place_holds.record_asked(workload.uid)
    # Read before the commit: a seat that appears later may be another process's, about to be committed.
    old_seats = context.seats(workload).get(name)
    moved = await move_to_seat(context, workload, request, pod)
    if moved is not None:
        result = await worker_pods.create(context, moved)
        if old_seats and assignment_of(moved).claim != name:
            if result is None:
                await teardown.release(context, name, old_seats)
            else:
                # The Pod of this name may be one that another process created late, on the old claim.
                await teardown.release_if_pod_gone(context, moved, name, old_seats)
        return result or context.retry
    listed = {shape.name for r in claim.spec.devices.requests for shape in r.first_available}
    if name not in own_claim_names(workload):
        detail = f"{name} lost its device"
    elif any(shape.name not in listed for shape in context.fleet.device_shapes(request)):
        detail = f"{name} lacks a device size that came since"
    else:
        await reporting.report_no_capacity(context, workload, request, pod)
        return context.retry
    if not await context.writer.delete_pod(pod, on_version=True):
        raise ContendedError(workload.name)
    scope.workload = await teardown.clear(context, workload, ReasonCode.WAITING_FOR_CAPACITY, detail)
    scope.pod = None
    return None


async def move_to_seat(
    context: ReconcileContext, workload: Workload, request: PlacementRequest, pod: Pod
) -> Workload | None:
    """Book a seat elsewhere, delete the refused Pod on its version, and commit the new assignment.

    Returns `None` if no ledger accepts the worker. If the Pod has changed, releases the new seat and raises
    `Conflict`: a bound Pod keeps its claim.
    """
    if not request.shareable:
        return None
    booked = await seat_choice.book_seat(context, workload, request)
    if booked is None:
        return None
    try:
        gone = await context.writer.delete_pod(pod, on_version=True)
    except Conflict:
        await commit.undo_booking(context, workload, booked)
        raise
    if not gone:
        # A finalizer keeps the Pod, and therefore the worker, on its old claim.
        await commit.undo_booking(context, workload, booked)
        raise ContendedError(workload.name)
    reason = sentence(ReasonCode.SHARED_ON_UNSCHEDULABLE, booked.claim)
    update = StatusUpdate(
        phase=Phase.PLACING,
        reason=reason,
        condition=PlacedUpdate(False, ReasonCode.UNSCHEDULABLE, reason),
        assignment=booked,
    )
    return await commit.commit(context, workload, update, booked)
