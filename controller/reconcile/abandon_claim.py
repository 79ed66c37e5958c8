"""Contract §5.7: abandon an allocated claim that keeps refusing the worker's Pod.

The allocation pins the Pod to a node where it does not fit (full host, cordon, taint, or a reason that the
fleet does not model), and kube-scheduler never moves it. The worker gives up its seat, and creates a claim of
its own next. It gives up at once if the claim moved to a node or device that can never hold this worker.
"""

from __future__ import annotations

from datetime import timedelta

from controller.api import convert
from controller.api.core import DEFAULT_SCHEDULER, Pod
from controller.api.dra import ResourceClaim
from controller.api.reasons import ReasonCode, sentence
from controller.api.workload import Workload
from controller.reconcile import reporting, teardown
from controller.reconcile.context import ReconcileContext, Scope, own_claim_names
from controller.reconcile.local_state import Milestone
from controller.reconcile.worker_pods import is_silent, is_unschedulable, verdict_delay_seconds
from informers.queue.runner import Result
from placement.types import JoinCheck

SILENCE_GRACE = timedelta(seconds=30)
"""Time before the status reports a Pod without a result of a scheduler."""

SILENT_SEAT_KEPT = timedelta(minutes=2)
"""How long such a Pod keeps a seat on a claim of others."""

HOPELESS = frozenset({JoinCheck.ROLE_REFUSED, JoinCheck.DEVICE_TOO_SMALL})
"""Failed checks that cannot pass later, unlike a taint."""


async def abandon_refusing_claim(context: ReconcileContext, scope: Scope) -> Result | None:
    """Delete the Pod, clear the status, and release the seat on a claim that refuses the Pod.

    The node is closed to this worker for a while. Raises `Conflict` if the Pod has changed, because it may be
    bound. After the deletion the decision is final, even if a finalizer keeps the Pod.
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
    await context.writer.delete_pod(pod, on_version=True)
    words = f"; kube-scheduler: {pod.scheduled.message}" if pod.scheduled is not None else ""
    context.requeue(await give_up(context, workload, claim, "it kept refusing the Pod", words))
    return context.retry


async def wait_for_scheduler(context: ReconcileContext, scope: Scope) -> Result | None:
    """Report a Pod without a result of a scheduler, and leave a claim of others after two minutes.

    The worker then waits on its own claim, where it uses no seat of others. Raises `Conflict` if the Pod
    has changed, because it may be bound.
    """
    workload, pod = scope.workload, scope.pod
    if pod is None or not is_silent(pod):
        return None
    age = context.local_state.ages.age(Milestone.POD_CREATED, workload, pod) or timedelta()
    claim = context.claim(workload.status.claim_name)
    # While kube-scheduler binds a Pod of a new allocation, the Pod has no result either.
    binding_seconds = 0.0 if claim is None else verdict_delay_seconds(context, workload, claim, pod)
    # The status of a worker that left a seat for this reason keeps the reason.
    grace = timedelta() if context.local_state.place_holds.was_silent(workload.uid) else SILENCE_GRACE
    delay_seconds = max((grace - age).total_seconds(), binding_seconds)
    if delay_seconds > 0:
        return Result(requeue_after_seconds=min(delay_seconds, context.settings.retry_interval_seconds))
    code, detail = reporting.silence(pod)
    # An outage of the default scheduler stops everybody: giving up the seats would help nobody.
    is_outage = code is ReasonCode.WAITING_FOR_SCHEDULER and pod.spec.scheduler_name == DEFAULT_SCHEDULER
    if is_outage or workload.status.claim_name in own_claim_names(workload):
        await reporting.report_pending(context, workload, code, detail)
        return context.retry
    seat_seconds = (SILENT_SEAT_KEPT - age).total_seconds()
    if seat_seconds > 0:
        await reporting.report_pending(context, workload, code, detail)
        return Result(requeue_after_seconds=min(seat_seconds, context.settings.retry_interval_seconds))
    await context.writer.delete_pod(pod, on_version=True)
    context.local_state.place_holds.ask_first(workload.uid)
    context.requeue(await teardown.clear(context, workload, code, detail))
    return context.retry


def remaining_seconds(context: ReconcileContext, workload: Workload, claim: ResourceClaim, pod: Pod) -> float:
    """Return how long the claim may continue to refuse this Pod; 0 if it is abandoned now."""
    request = context.requests.of(workload)
    if request is not None and context.fleet.check(request, claim.metadata.name) in HOPELESS:
        return 0.0
    return verdict_delay_seconds(context, workload, claim, pod)


async def give_up(
    context: ReconcileContext,
    workload: Workload,
    claim: ResourceClaim,
    why: str,
    words: str = "",
    *,
    restarts: int | None = None,
) -> Workload:
    """Clear the status of a worker whose Pod never runs or has ended. Release the seat if the Pod is gone."""
    context.local_state.place_holds.add(workload.uid, claim)
    detail = f"{claim.metadata.name} on {convert.claim_node(claim) or 'no node'}: {why}"
    message = sentence(ReasonCode.REPLACING_WEDGED_CLAIM, detail) + words
    code = ReasonCode.REPLACING_WEDGED_CLAIM
    return await teardown.clear(context, workload, code, detail, message=message, restarts=restarts)
