"""Contract §5.12: replace a lost Pod, with a back-off.

A Pod is lost if it was deleted while its assignment was valid, by anybody: this controller too moves guests
that run. The next Pod may be lost in the same way. So the worker leaves a seat on a claim of others, whose
node is closed to it, and waits on its own claim.
"""

from __future__ import annotations

from controller.api.reasons import Phase
from controller.api.status import assignment_of
from controller.api.workload import Workload
from controller.reconcile import abandon_claim
from controller.reconcile.context import ReconcileContext, Scope, own_claim_names
from controller.reconcile.losses.memory import LostPod
from controller.reconcile.worker_pods import assignment_on, recreation_update
from informers.queue.runner import Result

DEVICE_EVICTION = "DeletionByDeviceTaintManager"
"""The reason of an eviction by a taint of the device: it evicts everybody."""

UNKNOWN = "deleted"
"""The reason of a Pod that says no other."""

REPORTED_SECONDS = 10.0
"""A longer wait is reported at once, and keeps no seat on a claim of others."""


async def replace_lost_pod(context: ReconcileContext, scope: Scope) -> Result | None:
    """Count the loss of an assigned worker's Pod, and wait or leave the claim before the next Pod."""
    workload = scope.workload
    if scope.pod is not None or scope.committed or not workload.status.claim_name:
        return None
    lost = _lost_pod(context, workload)
    if lost is None:
        return None
    delay_seconds = context.local_state.lost_pods.add(workload.uid)
    restarts = workload.status.restarts + lost.had_run
    claim = context.claim(workload.status.claim_name)
    if claim is not None and claim.allocated and lost.reason == DEVICE_EVICTION:
        context.local_state.place_holds.close_to_all(claim)
    is_own = workload.status.claim_name in own_claim_names(workload)
    if claim is not None and not is_own and (lost.was_bound or delay_seconds > REPORTED_SECONDS):
        why = f"its Pod was lost ({lost.reason})"
        context.requeue(await abandon_claim.give_up(context, workload, claim, why, restarts=restarts))
        return context.retry
    context.local_state.lost_pods.keep_unreported(workload.uid, lost)
    if delay_seconds > REPORTED_SECONDS:
        scope.workload = await context.report(workload, recreation_update(context, workload))
        context.local_state.lost_pods.record_reported(workload.uid)
    return Result(requeue_after_seconds=delay_seconds)


def _lost_pod(context: ReconcileContext, workload: Workload) -> LostPod | None:
    """Return the last Pod of the worker's assignment, if it is gone and its loss is not counted yet."""
    lost_pods = context.local_state.lost_pods
    was_running = workload.status.phase == Phase.RUNNING.value
    pod = lost_pods.take(workload.uid)
    if pod is None:
        is_new = was_running and lost_pods.unreported(workload.uid) is None
        # The Pod of a running worker went while no controller watched.
        return LostPod(had_run=True, was_bound=True, reason=UNKNOWN) if is_new else None
    if assignment_on(pod, workload) != assignment_of(workload):
        return None
    # A kubelet marks every container of a deleted Pod as terminated, so that its last version proves nothing.
    had_run = was_running or lost_pods.has_run(workload.uid)
    reason = lost_pods.take_cause(pod) or pod.disruption or pod.status.reason or UNKNOWN
    return LostPod(had_run, pod.bound, reason)
