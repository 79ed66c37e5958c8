"""Contract §5.7: abandon an allocated claim that keeps refusing the worker's Pod.

The allocation pins the Pod to a node where it does not fit (full host, cordon, taint), and kube-scheduler
never moves it. The worker gives up its seat and is placed again after two minutes, or at once if the claim
moved to a node or device that can never hold this worker.
"""

from __future__ import annotations

from datetime import timedelta

from controller.api import convert
from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.reasons import ReasonCode, sentence
from controller.api.workload import Workload
from controller.reconcile import reporting, teardown
from controller.reconcile.context import ContendedError, ReconcileContext, Scope
from controller.reconcile.local_state import Milestone
from controller.reconcile.worker_pods import is_unschedulable
from informers.queue.runner import Result
from placement.types import JoinCheck

PATIENCE = timedelta(minutes=2)
PATIENCE_WHILE_BINDING = timedelta(seconds=600)
"""For an allocation with `bindingConditions`: kube-scheduler itself waits that long for the driver."""

HOPELESS = frozenset({JoinCheck.ROLE_REFUSED, JoinCheck.DEVICE_TOO_SMALL})
"""Failed checks that cannot pass later, unlike a taint."""


async def abandon_refusing_claim(context: ReconcileContext, scope: Scope) -> Result | None:
    """Delete the Pod, clear the status, and release the seat on a claim that refused for too long.

    The claim is not offered to this worker again for a while. Raises `Conflict` if the Pod has changed,
    because it may be bound.
    """
    workload, pod = scope.workload, scope.pod
    claim = context.claim(workload.status.claim_name)
    if pod is None or claim is None or not claim.allocated or not is_unschedulable(pod):
        return None
    remaining = remaining_seconds(context, workload, claim, pod)
    if remaining > 0:
        if scope.request is not None:
            await reporting.report_no_capacity(context, workload, scope.request, pod)
        return Result(requeue_after_seconds=min(remaining, context.settings.retry_interval_seconds))
    if not await context.writer.delete_pod(pod, on_version=True):
        # A finalizer keeps the Pod, and therefore the worker, on that claim.
        raise ContendedError(workload.name)
    words = f"; kube-scheduler: {pod.scheduled.message}" if pod.scheduled is not None else ""
    context.requeue(await give_up(context, workload, claim, "it kept refusing the Pod", words))
    return context.retry


def remaining_seconds(context: ReconcileContext, workload: Workload, claim: ResourceClaim, pod: Pod) -> float:
    """Return how long the claim may continue to refuse this Pod; 0 or less if it is abandoned now.

    The time counts from the latest of the refusal, the creation of the Pod and the allocation. A Pod that
    waited on its own claim for minutes briefly carries the old refusal after the claim is allocated.
    """
    request = context.requests.of(workload)
    if request is not None and context.fleet.check(request, claim.metadata.name) in HOPELESS:
        return 0.0
    is_binding = claim.status.allocation is not None and any(
        result.binding_conditions for result in claim.status.allocation.devices.results
    )
    state = context.local_state
    ages = (
        state.allocation_times.age(claim),
        state.ages.age(Milestone.POD_CREATED, workload, pod),
        state.ages.age(Milestone.POD_SCHEDULED_CHANGED, workload, pod),
    )
    refused_for = min(age for age in ages if age is not None)
    return ((PATIENCE_WHILE_BINDING if is_binding else PATIENCE) - refused_for).total_seconds()


async def give_up(
    context: ReconcileContext, workload: Workload, claim: ResourceClaim, why: str, words: str = ""
) -> Workload:
    """Clear the status and release the seat of a worker whose Pod is gone from the claim or has ended."""
    context.local_state.place_holds.add(workload.uid, claim)
    detail = f"{claim.metadata.name} on {convert.claim_node(claim) or 'no node'}: {why}"
    message = sentence(ReasonCode.REPLACING_WEDGED_CLAIM, detail) + words
    return await teardown.clear(context, workload, ReasonCode.REPLACING_WEDGED_CLAIM, detail, message=message)
