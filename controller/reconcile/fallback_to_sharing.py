"""Contract §5.8: fall back to sharing.

kube-scheduler is the capacity probe. Only its condition `Unschedulable` on the Pod of an unallocated claim
triggers the fallback; there is no timer.
"""

from __future__ import annotations

from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.status import PlacedUpdate, StatusUpdate, assignment_of
from controller.api.workload import Workload
from controller.reconcile import commit, reporting, seat_choice, teardown, worker_pods
from controller.reconcile.context import ReconcileContext, Scope, own_claim_names
from informers.errors import Conflict
from informers.queue.runner import Result
from ledger.state import SeatRef
from placement.device_request import SINGLE_ALLOCATION, accepts
from placement.types import DeviceShape, PlacementRequest


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
    delay_seconds = max(
        worker_pods.verdict_delay_seconds(context, workload, claim, pod),
        context.local_state.pod_budget.wait_seconds(workload.uid),
    )
    if delay_seconds > 0:
        return Result(requeue_after_seconds=min(delay_seconds, context.settings.retry_interval_seconds))
    name = claim.metadata.name
    if name in own_claim_names(workload):
        context.local_state.place_holds.record_asked(workload.uid)
    # Read before the commit: a seat that appears later may be another process's, about to be committed.
    old_seats = context.seats(workload).get(name)
    moved = await move_to_seat(context, workload, request, pod)
    if moved is not None:
        return await _start_on_seat(context, moved, name, old_seats)
    if name not in own_claim_names(workload):
        detail = f"{name} lost its device"
    elif _lacks_shape(claim, context.fleet.device_shapes(request)):
        detail = f"{name} lacks a device size that came since"
    elif context.fleet.has_multiple_allocations and not _excludes_shared_devices(claim):
        detail = f"{name} accepts a shared device that came since"
    else:
        await reporting.report_no_capacity(context, workload, request, pod)
        return context.retry
    await context.writer.delete_pod(pod, on_version=True)
    scope.workload = await teardown.clear(context, workload, ReasonCode.WAITING_FOR_CAPACITY, detail)
    scope.pod = context.pod(scope.workload)
    return None if scope.pod is None else context.retry


def _lacks_shape(claim: ResourceClaim, shapes: tuple[DeviceShape, ...]) -> bool:
    """Return whether no alternative of the claim accepts one of today's shapes."""
    alternatives = _alternatives(claim)
    return any(
        not any(accepts(count, expressions, shape) for count, expressions in alternatives) for shape in shapes
    )


def _excludes_shared_devices(claim: ResourceClaim) -> bool:
    """Return whether no alternative accepts a device that several claims may hold at once."""
    return all(SINGLE_ALLOCATION in expressions for _, expressions in _alternatives(claim))


def _alternatives(claim: ResourceClaim) -> list[tuple[int, list[str]]]:
    """Return the device count and the CEL expressions of each alternative."""
    return [
        (alternative.count, [selector.cel.expression for selector in alternative.selectors])
        for device_request in claim.spec.devices.requests
        for alternative in device_request.first_available
    ]


async def _start_on_seat(
    context: ReconcileContext, moved: Workload, old_claim: str, old_seats: list[SeatRef] | None
) -> Result:
    """Create the Pod of the new assignment once the old Pod is gone, and release the old seats."""
    kept = context.pod(moved)
    if kept is not None:
        return await reporting.wait_for_pod_gone(context, moved, kept)
    result = await worker_pods.create(context, moved)
    if old_seats and assignment_of(moved).claim != old_claim:
        if result is None:
            await teardown.release(context, old_claim, old_seats)
        else:
            # The Pod of this name may be one that another process created late, on the old claim.
            await teardown.release_if_pod_gone(context, moved, old_claim, old_seats)
    return result or context.retry


async def move_to_seat(
    context: ReconcileContext, workload: Workload, request: PlacementRequest, pod: Pod
) -> Workload | None:
    """Book a seat elsewhere, delete the refused Pod on its version, and commit the new assignment.

    Returns `None` if no ledger accepts the worker. If the Pod has changed, releases the new seat and raises
    `Conflict`: a bound Pod keeps its claim. A Pod that a finalizer keeps can never be bound.
    """
    if not request.shareable:
        return None
    booked = await seat_choice.book_seat(context, workload, request)
    if booked is None:
        return None
    try:
        await context.writer.delete_pod(pod, on_version=True)
    except Conflict:
        await commit.undo_booking(context, workload, booked)
        raise
    reason = sentence(ReasonCode.SHARED_ON_UNSCHEDULABLE, booked.claim)
    update = StatusUpdate(
        phase=Phase.PLACING,
        reason=reason,
        condition=PlacedUpdate(False, ReasonCode.UNSCHEDULABLE, reason),
        assignment=booked,
    )
    return await commit.commit(context, workload, update, booked)
