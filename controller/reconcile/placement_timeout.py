"""Contract §5.13: fail a worker that was not placed within the placement timeout, so that it never starts.

The time counts from the last transition of `Placed` to False, or from creation if `Placed` was never written.
Time spent waiting for a predecessor's claim to end does not count. First, the Pod is deleted on the version
that showed it unbound (a conflict cancels the timeout), or a live read shows that it is absent. Then `Failed`
is written, and seat and claim are released.
"""

from __future__ import annotations

from datetime import timedelta

from controller.api.core import Pod
from controller.api.reasons import Phase, ReasonCode, has_code, sentence
from controller.api.status import PlacedUpdate, StatusUpdate
from controller.api.workload import Workload
from controller.config.durations import format_duration
from controller.reconcile import teardown
from controller.reconcile.context import ReconcileContext
from controller.reconcile.local_state import Milestone
from informers.api import ObjectKey
from informers.queue.runner import Result

SCHEDULING_GRACE = timedelta(seconds=10)
"""Time that kube-scheduler has for a Pod created just before the timeout."""

EXPIRED = Result()
"""The result of a reconcile that reached the timeout."""


async def enforce(context: ReconcileContext, key: ObjectKey, result: Result) -> Result:
    """Fail a worker that has timed out; otherwise return `result`, requeued by the timeout at the latest."""
    workload = context.caches.workloads.store.get(key)
    if workload is None or workload.deleting or workload.terminal or key not in context.scheduling_queue:
        return result
    remaining = remaining_seconds(context, workload)
    if remaining is None:
        return result
    if remaining > 0:
        requeue = result.requeue_after_seconds
        return Result(requeue_after_seconds=remaining if requeue is None else min(requeue, remaining))
    pod = context.pod(workload)
    grace = grace_seconds(context, workload, pod)
    if grace > 0:
        return Result(requeue_after_seconds=grace)
    await expire(context, workload, pod)
    return EXPIRED


def remaining_seconds(context: ReconcileContext, workload: Workload) -> float | None:
    """Return the time left for placement; `None` if the worker is placed or there is no timeout."""
    timeout_seconds = context.settings.placement_timeout_seconds
    condition = workload.placed_condition
    if not timeout_seconds or (condition is not None and condition.status == "True"):
        return None
    waited = context.local_state.ages.counted_wait(workload)
    return (timedelta(seconds=timeout_seconds) - waited).total_seconds()


def grace_seconds(context: ReconcileContext, workload: Workload, pod: Pod | None) -> float:
    """Return the time that kube-scheduler still has for a Pod that was just created."""
    age = context.local_state.ages.age(Milestone.POD_CREATED, workload, pod)
    return 0.0 if age is None else (SCHEDULING_GRACE - age).total_seconds()


async def expire(context: ReconcileContext, workload: Workload, pod: Pod | None) -> None:
    """Delete the Pod, fail the Workload, and release its seat and claim. A `Conflict` cancels the timeout."""
    if pod is not None:
        await context.writer.delete_pod(pod, on_version=True)
    elif await context.live.pod_of(workload.name):
        context.requeue(workload)
        return
    waited = format_duration(context.settings.placement_timeout_seconds)
    last = workload.status.reason or "no verdict from kube-scheduler"
    reason = sentence(ReasonCode.PLACEMENT_TIMEOUT, f"waited {waited}; last: {last}")
    never_fit = has_code(last, ReasonCode.NO_CAPACITY)
    condition = PlacedUpdate(
        False, ReasonCode.UNSATISFIABLE if never_fit else ReasonCode.UNSCHEDULABLE, reason
    )
    failed = await context.report(
        workload, StatusUpdate(phase=Phase.FAILED, reason=reason, condition=condition)
    )
    await teardown.withdraw(context, failed)
