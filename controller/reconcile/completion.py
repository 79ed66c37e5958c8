"""Contract §5.12: handle a finished Pod, which has either ended or been lost.

It has ended only if nothing removed it. The terminal status is then written first, because it records where
the worker ran. After that its seat is released. A lost Pod is replaced, and its seat stays booked for the
next one.
"""

from __future__ import annotations

from controller.api.core import Pod
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.status import StatusUpdate
from controller.reconcile import abandon_claim, reporting, teardown
from controller.reconcile.context import ReconcileContext, Scope
from controller.reconcile.worker_pods import is_left
from informers.queue.runner import Result

MAX_REJECTIONS = 3
"""Rejections by the kubelet of a claim's node after which the worker abandons the claim."""


async def finish(context: ReconcileContext, scope: Scope) -> Result | None:
    """Record the result of a finished Pod, or replace a lost one."""
    workload, pod = scope.workload, scope.pod
    if pod is None or not pod.finished or is_left(pod, workload):
        # Garbage collection of Pods also marks those as failed that were deleted before they were bound.
        return None
    live = await context.live.pod_of(workload.name)
    if live is None or live.metadata.uid != pod.metadata.uid or not live.finished:
        context.requeue(workload)
        return Result()
    if is_lost(live):
        return await _replace(context, scope, live, pod)
    update = StatusUpdate(phase=Phase.SUCCEEDED, reason="")
    if live.status.phase == "Failed":
        reason = sentence(ReasonCode.POD_FAILED, failure_message(live))
        update = StatusUpdate(phase=Phase.FAILED, reason=reason)
    await teardown.withdraw(context, await context.report(workload, update))
    return Result()


def is_lost(pod: Pod) -> bool:
    """Return whether a finished Pod was deleted, disrupted, or rejected before any container started."""
    if pod.metadata.deletion_timestamp is not None:
        return True
    if pod.status.phase != "Failed":
        return False
    if pod.disrupted:
        return True
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return not any(s.state.terminated is not None for s in statuses)


async def _replace(context: ReconcileContext, scope: Scope, live: Pod, cached: Pod) -> Result:
    """Delete a lost Pod. If the kubelet rejected it, back off: the next one may be rejected as well."""
    workload = scope.workload
    deleting = live.metadata.deletion_timestamp is not None
    if not deleting and await context.writer.delete_pod(live):
        context.requeue(workload)
    if deleting or live.disrupted:
        return await reporting.wait_for_pod_gone(context, workload, cached)
    rejections = context.local_state.rejection_backoff
    delay_seconds = rejections.add(workload.uid)
    claim = context.claim(workload.status.claim_name)
    if claim is not None and rejections.count(workload.uid) % MAX_REJECTIONS == 0:
        await abandon_claim.give_up(context, workload, claim, "its kubelet kept rejecting the Pod")
    return Result(requeue_after_seconds=delay_seconds)


def failure_message(pod: Pod) -> str:
    """Return the Pod's message, or a description of the first container's failure."""
    if pod.status.message:
        return pod.status.message
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        terminated = status.state.terminated
        if terminated is not None and terminated.exit_code != 0:
            words = ": ".join(filter(None, (terminated.reason, terminated.message)))
            suffix = f" ({words})" if words else ""
            return f"container {status.name} exited with code {terminated.exit_code}{suffix}"
    return pod.status.reason or "no reason given"
