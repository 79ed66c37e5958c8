"""Contract §5.7: leave a claim that cannot hold the worker any more.

A claim may be allocated again, to another node or device. A worker that joined it then has a place that it
never chose. A Pod is created only on a claim where the worker could book a seat today, its own not counted.
A capacity that is merely published anew moves nobody.
"""

from __future__ import annotations

from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.status import parse_timestamp
from controller.api.workload import Workload
from controller.reconcile import abandon_claim, reporting
from controller.reconcile.context import ReconcileContext, Scope, own_claim_names
from informers.queue.runner import Result
from placement.types import PlacementRequest


async def leave_unfit_claim(context: ReconcileContext, scope: Scope) -> Result | None:
    """Give up a claim before the next Pod is created on it, or move a Pod that a new allocation caught.

    Raises `Conflict` if an unbound Pod has changed, because it may be bound.
    """
    workload, pod, name = scope.workload, scope.pod, scope.workload.status.claim_name
    claim, request = context.claim(name), scope.request
    if claim is None or request is None or scope.committed:
        return None
    is_own = name in own_claim_names(workload)
    if pod is None:
        why = _why_not_here(context, request, claim, is_own=is_own)
    elif is_own or pod.deleting:
        return None
    else:
        why = _why_not_there(context, workload, request, claim, pod)
    if not why:
        return None
    if pod is not None and pod.bound:
        context.local_state.lost_pods.record_cause(pod, why)
        await context.writer.delete_pod(pod)
        return await reporting.wait_for_pod_gone(context, workload, pod)
    if pod is not None:
        await context.writer.delete_pod(pod, on_version=True)
    context.requeue(await abandon_claim.give_up(context, workload, claim, why))
    return context.retry


def _why_not_here(
    context: ReconcileContext, request: PlacementRequest, claim: ResourceClaim, *, is_own: bool
) -> str:
    """Return why no Pod is created on the claim, empty if it can be."""
    if not claim.allocated:
        # The next device of another worker's claim is what that worker asks for.
        return "" if is_own else "it lost its device"
    check = context.fleet.check_place(request, claim.metadata.name)
    return "" if check is None else check.value


def _why_not_there(
    context: ReconcileContext,
    workload: Workload,
    request: PlacementRequest,
    claim: ResourceClaim,
    pod: Pod,
) -> str:
    """Return why a Pod leaves the claim of others, empty if it stays."""
    has_other_devices = context.local_state.first_devices.have_changed(workload.uid, pod, claim)
    if not claim.allocated:
        return "" if pod.bound else "it lost its device"
    allocation = claim.status.allocation
    allocated_at = "" if allocation is None else allocation.allocation_timestamp
    created_at = parse_timestamp(pod.metadata.creation_timestamp)
    # A cluster may publish no time of allocation. Then only a change that this process saw counts.
    is_later = bool(allocated_at) and parse_timestamp(allocated_at) >= created_at
    if not (is_later or has_other_devices):
        return ""
    check = context.fleet.check_size(request, claim.metadata.name)
    return "" if check is None else check.value
