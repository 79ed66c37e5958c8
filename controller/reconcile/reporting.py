"""Contract §5.11: the status of a worker that runs, starts, or waits.

Each function writes the status only if its code or causes changed. The functions that return seconds report
nothing within a grace period, and return its remaining time.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from controller.api import convert
from controller.api.core import Pod
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.status import PlacedUpdate, PlacementDetails, StatusUpdate
from controller.api.workload import Workload
from controller.reconcile.ages import Milestone
from controller.reconcile.context import DONE, ReconcileContext, WorkloadScope
from informers.api import ObjectKey
from informers.queue.runner import Result
from placement.quantity import whole_gib
from placement.types import Explanation, PlacementRequest

GRACE = timedelta(seconds=10)
"""Time that a Pod has to start, a scheduler error to recover, and a Pod to end, before the status says so."""


async def report_pod(context: ReconcileContext, scope: WorkloadScope) -> Result | None:
    """Report on a worker whose Pod exists."""
    workload, pod = scope.workload, scope.pod
    if pod is None:
        return None
    if pod.status.phase == "Running":
        context.local_state.settle(workload.uid)
        await running(context, workload, scope.request, pod)
        return DONE
    if pod.bound:
        return Result(requeue_after_seconds=await starting(context, workload, scope.request, pod))
    requeue = await scheduler_error(context, workload, pod)
    return context.retry if requeue is None else Result(requeue_after_seconds=requeue)


# Workers with a Pod


async def running(
    context: ReconcileContext, workload: Workload, request: PlacementRequest | None, pod: Pod
) -> None:
    """Report a worker whose Pod runs as placed."""
    update = StatusUpdate(
        phase=Phase.RUNNING,
        reason="",
        condition=PlacedUpdate(True, ReasonCode.PLACED),
        details=_pod_details(context, workload, request, pod),
    )
    await context.report(workload, update)


async def starting(
    context: ReconcileContext, workload: Workload, request: PlacementRequest | None, pod: Pod
) -> float | None:
    """Report a bound Pod that does not run after the grace period."""
    remaining_seconds = _remaining_seconds(context, workload, pod)
    if remaining_seconds > 0:
        return remaining_seconds
    reason = sentence(ReasonCode.CONTAINER_WAITING, _waiting_reason(pod))
    update = StatusUpdate(
        phase=Phase.PLACING,
        reason=reason,
        condition=PlacedUpdate(False, ReasonCode.NOT_STARTED, reason),
        details=_pod_details(context, workload, request, pod),
    )
    await context.report(workload, update)
    return None


async def scheduler_error(context: ReconcileContext, workload: Workload, pod: Pod) -> float | None:
    """Report an error of kube-scheduler that lasts longer than the grace period."""
    condition = pod.scheduled
    if condition is None or condition.reason != "SchedulerError":
        return None
    remaining_seconds = _remaining_seconds(context, workload, pod)
    if remaining_seconds > 0:
        return remaining_seconds
    reason = sentence(
        ReasonCode.SCHEDULER_ERROR, "kube-scheduler fails at this Pod; its words are in the condition"
    )
    update = StatusUpdate(
        phase=Phase.PENDING,
        reason=reason,
        condition=PlacedUpdate(False, ReasonCode.SCHEDULER_ERROR, condition.message),
        details=_pod_details(context, workload, None, pod),
    )
    await context.report(workload, update)
    return None


def _remaining_seconds(context: ReconcileContext, workload: Workload, pod: Pod) -> float:
    """Return what is left of the grace period since `PodScheduled` changed; 0 if that time is unknown."""
    age = context.local_state.ages.age(Milestone.POD_SCHEDULED_CHANGED, workload, pod)
    return 0.0 if age is None else (GRACE - age).total_seconds()


def _waiting_reason(pod: Pod) -> str:
    """Return the first container's reason for not running."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    reasons = (s.state.waiting.reason for s in statuses if s.state.waiting is not None)
    return next(filter(None, reasons), "not started yet")


async def wait_for_pod_gone(context: ReconcileContext, workload: Workload, pod: Pod) -> Result:
    """Report a Pod that is being deleted and still exists after the grace period."""
    age = context.local_state.ages.age(Milestone.POD_DELETION_REQUESTED, workload, pod)
    remaining_seconds = (GRACE - (age or timedelta())).total_seconds()
    if remaining_seconds > 0:
        return Result(requeue_after_seconds=remaining_seconds)
    place = f"{pod.metadata.name} on {pod.spec.node_name or 'no node'}"
    await context.report(workload, StatusUpdate(reason=sentence(ReasonCode.WAITING_FOR_POD_GONE, place)))
    return context.retry


# Workers without a bound Pod


async def wait_for_capacity(context: ReconcileContext, workload: Workload, request: PlacementRequest) -> None:
    """Report a worker without a claim that fits nowhere now."""
    text = _explain(context, workload, request).sentence
    await _report_waiting(context, workload, text, PlacedUpdate(False, ReasonCode.WAITING_FOR_CAPACITY, text))


async def unschedulable(
    context: ReconcileContext, workload: Workload, request: PlacementRequest, pod: Pod
) -> None:
    """Report a worker whose Pod kube-scheduler refused; the condition quotes kube-scheduler's message."""
    text = message = _explain(context, workload, request).sentence
    if pod.scheduled is not None and pod.scheduled.message:
        message = f"{text}; kube-scheduler: {pod.scheduled.message}"
    await _report_waiting(context, workload, text, PlacedUpdate(False, ReasonCode.UNSCHEDULABLE, message))


def _explain(context: ReconcileContext, workload: Workload, request: PlacementRequest) -> Explanation:
    """Explain why the worker waits. It is requeued once the caches show causes that they lack now."""
    held_claims = context.local_state.claim_backoff.held_claims(workload.uid)
    explanation = context.fleet.explain(request, held_claims)
    if explanation.lacks_causes:
        context.scheduling_queue.mark_unexplained(ObjectKey.of(workload))
    return explanation


async def missing_device_class(context: ReconcileContext, workload: Workload) -> None:
    """Report that the DeviceClass does not exist: a configuration error, not a busy fleet."""
    detail = f"device class {context.settings.device_class} does not exist"
    await _report_code(context, workload, ReasonCode.INVALID_CONFIGURATION, detail)


async def wait_for_predecessor_claim(context: ReconcileContext, workload: Workload, name: str) -> None:
    """Report that an earlier claim of this worker is still ending. The timeout does not count this wait."""
    context.local_state.timeout_exemptions.record(workload.uid)
    claim = context.claim(name)
    node = convert.claim_node(claim) if claim is not None else ""
    detail = f"{name} is still ending{f' on {node}' if node else ''}"
    await _report_code(context, workload, ReasonCode.WAITING_FOR_PREDECESSOR_CLAIM, detail)


async def wait_for_predecessor_pod(context: ReconcileContext, workload: Workload, pod: Pod) -> None:
    """Report that the Pod of an earlier Workload with this name is still ending."""
    detail = f"{pod.metadata.name} is still ending{f' on {pod.spec.node_name}' if pod.bound else ''}"
    await _report_code(context, workload, ReasonCode.WAITING_FOR_PREDECESSOR_POD, detail)


async def _report_code(context: ReconcileContext, workload: Workload, code: ReasonCode, detail: str) -> None:
    text = sentence(code, detail)
    await _report_waiting(context, workload, text, PlacedUpdate(False, code, text))


async def _report_waiting(
    context: ReconcileContext, workload: Workload, reason: str, condition: PlacedUpdate
) -> None:
    status = workload.status
    details = _details(context, workload, status.memory_per_device, status.pod_name)
    update = StatusUpdate(phase=Phase.PENDING, reason=reason, condition=condition, details=details)
    await context.report(workload, update)


# Details


def _pod_details(
    context: ReconcileContext, workload: Workload, request: PlacementRequest | None, pod: Pod
) -> PlacementDetails:
    memory = whole_gib(request.memory_bytes) if request else workload.status.memory_per_device
    details = _details(context, workload, memory, pod.metadata.name)
    return details if details.node_name else replace(details, node_name=pod.spec.node_name)


def _details(
    context: ReconcileContext, workload: Workload, memory_per_device: str, pod_name: str
) -> PlacementDetails:
    """Return the details of the claim's current allocation; without one the worker is on no node."""
    claim = context.claim(workload.status.claim_name)
    allocation = claim.status.allocation if claim is not None else None
    return PlacementDetails(
        pod_name=pod_name,
        node_name=convert.claim_node(claim) if claim is not None else "",
        device_count=len(allocation.devices.results) if allocation is not None else 0,
        memory_per_device=memory_per_device,
    )
