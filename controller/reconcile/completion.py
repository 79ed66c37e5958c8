"""Contract §5.12: handle a Pod that has ended, was rejected by its kubelet, or was lost.

The worker's own container states how the worker ended. A worker has ended only if nothing removed its Pod.
The terminal status is then written first, because it records where the worker ran. After that its seat is
released. A lost or rejected Pod is replaced.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, auto

from controller.api.core import Pod
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.status import StatusUpdate
from controller.reconcile import abandon_claim, reporting, teardown
from controller.reconcile.context import ReconcileContext, Scope, own_claim_names
from controller.reconcile.local_state import Milestone
from controller.reconcile.worker_pods import is_left
from informers.queue.runner import Result

MAX_REJECTIONS = 3
"""Rejections by the kubelet of its own claim's node after which the worker abandons the claim."""

OTHERS_GRACE = timedelta(seconds=30)
"""Time in which the other containers of a Pod may end after the worker's container."""


class PodEnd(Enum):
    """How a Pod has ended."""

    SUCCEEDED = auto()
    FAILED = auto()
    """On its own account: a container failed, its deadline passed, or it exceeded what it asked for."""
    REJECTED = auto()
    """By its kubelet, before any container ran."""
    LOST = auto()
    """Deleted, or disrupted by Kubernetes."""


def end_of(pod: Pod, worker_container: str) -> PodEnd | None:
    """Return how a Pod has ended, `None` while its worker runs or may run."""
    own = pod.container_end(worker_container)
    if not pod.finished and (own is None or pod.deleting or pod.disrupted):
        return None
    if pod.deleting or (pod.disrupted and pod.status.phase == "Failed"):
        return PodEnd.LOST
    # A container that its kubelet stops may still exit with 0. The kubelet then states a reason for the Pod.
    stopped = pod.finished and bool(pod.status.reason)
    if pod.status.phase == "Succeeded" or (own is not None and own.exit_code == 0 and not stopped):
        return PodEnd.SUCCEEDED
    if not pod.finished or pod.started or pod.status.reason == "DeadlineExceeded":
        return PodEnd.FAILED
    return PodEnd.REJECTED


async def finish(context: ReconcileContext, scope: Scope) -> Result | None:
    """Record the result of a Pod that has ended, or replace a lost or rejected one."""
    workload, pod = scope.workload, scope.pod
    container = workload.spec.worker_container_name
    if pod is None or end_of(pod, container) is None or is_left(pod, workload):
        # Garbage collection of Pods also marks those as failed that were deleted before they were bound.
        return None
    if not pod.finished:
        ended_for = context.local_state.ages.age(Milestone.WORKER_CONTAINER_ENDED, workload, pod)
        if ended_for is not None and ended_for < OTHERS_GRACE:
            return Result(requeue_after_seconds=(OTHERS_GRACE - ended_for).total_seconds())
    live = await context.live.pod_of(workload.name)
    end = None if live is None or live.metadata.uid != pod.metadata.uid else end_of(live, container)
    if live is None or end is None:
        context.requeue(workload)
        return Result()
    if end in {PodEnd.LOST, PodEnd.REJECTED}:
        return await _replace(context, scope, live, end)
    update = StatusUpdate(phase=Phase.SUCCEEDED, reason="")
    if end is PodEnd.FAILED:
        reason = sentence(ReasonCode.POD_FAILED, failure_message(live, container))
        update = StatusUpdate(phase=Phase.FAILED, reason=reason)
    await teardown.withdraw(context, await context.report(workload, update))
    return Result()


async def _replace(context: ReconcileContext, scope: Scope, live: Pod, end: PodEnd) -> Result:
    """Delete a lost or rejected Pod. A rejection closes the node, or backs off on the worker's own claim."""
    workload = scope.workload
    if not live.deleting and await context.writer.delete_pod(live):
        context.requeue(workload)
    if end is PodEnd.LOST:
        return await reporting.wait_for_pod_gone(context, workload, live)
    rejections = context.local_state.rejection_backoff
    delay_seconds = rejections.add(workload.uid)
    claim = context.claim(workload.status.claim_name)
    is_own = workload.status.claim_name in own_claim_names(workload)
    if claim is not None and (not is_own or rejections.count(workload.uid) % MAX_REJECTIONS == 0):
        words = f"; kubelet: {live.status.message or live.status.reason}"
        await abandon_claim.give_up(context, workload, claim, "its kubelet rejected the Pod", words)
    return Result(requeue_after_seconds=delay_seconds)


def failure_message(pod: Pod, worker_container: str) -> str:
    """Return the Pod's message, or a description of the first failed container, the worker's own first."""
    if pod.status.message:
        return pod.status.message
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    for status in sorted(statuses, key=lambda status: status.name != worker_container):
        terminated = status.state.terminated
        if terminated is not None and terminated.exit_code != 0:
            words = ": ".join(filter(None, (terminated.reason, terminated.message)))
            suffix = f" ({words})" if words else ""
            return f"container {status.name} exited with code {terminated.exit_code}{suffix}"
    return pod.status.reason or "no reason given"
