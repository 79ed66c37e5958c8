"""Contract §5.11: the status of a worker that runs, starts, or waits.

Each function writes the status only if its code or causes changed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from controller.api import convert
from controller.api.core import Pod
from controller.api.reasons import Phase, ReasonCode, sentence, truncate
from controller.api.refusal_kinds import refusal_kinds
from controller.api.status import PlacedUpdate, PlacementDetails, StatusUpdate
from controller.api.workload import Workload
from controller.reconcile.context import ReconcileContext, Scope
from controller.reconcile.local_state import Milestone
from informers.api import ObjectKey
from informers.queue.runner import Result
from placement.explain import REASON_MAX_CHARACTERS
from placement.quantity import whole_gib
from placement.types import PlacementRequest

REFUSED_DEVICE_SECONDS = 30.0
"""Time for which a device must be free and refused before the status reports it."""

_DEVICES_REFUSED = "cannot allocate all claims"
"""kube-scheduler's words for a node without the devices of a claim."""

STATUS_GRACE = timedelta(seconds=10)
"""Time before the status reports a Pod that does not start or end, or a scheduler error."""


async def report_pod(context: ReconcileContext, scope: Scope) -> Result | None:
    """Report a Pod that runs. After the grace period, report one that does not start or a scheduler error."""
    workload, pod = scope.workload, scope.pod
    if pod is None:
        return None
    if pod.status.phase == "Running":
        context.local_state.settle(workload.uid)
        condition, details = PlacedUpdate(True, ReasonCode.PLACED), _pod_details(context, workload, pod)
        update = StatusUpdate(phase=Phase.RUNNING, reason="", condition=condition, details=details)
        await context.report(workload, update)
        return Result()
    has_error = pod.scheduled is not None and pod.scheduled.reason == "SchedulerError"
    if not pod.bound and not has_error:
        return context.retry
    age = context.local_state.ages.age(Milestone.POD_SCHEDULED_CHANGED, workload, pod)
    if age is not None and age < STATUS_GRACE:
        return Result(requeue_after_seconds=(STATUS_GRACE - age).total_seconds())
    if pod.bound:
        reason = sentence(ReasonCode.CONTAINER_WAITING, _waiting_reason(pod))
        condition = PlacedUpdate(False, ReasonCode.NOT_STARTED, reason)
        details = _pod_details(context, workload, pod)
        update = StatusUpdate(phase=Phase.PLACING, reason=reason, condition=condition, details=details)
        await context.report(workload, update)
        return Result()
    message = pod.scheduled.message if pod.scheduled is not None else ""
    reason = sentence(
        ReasonCode.SCHEDULER_ERROR, "kube-scheduler fails at this Pod; its words are in the condition"
    )
    condition = PlacedUpdate(False, ReasonCode.SCHEDULER_ERROR, message)
    await _report_waiting(context, workload, reason, condition, pod_name=pod.metadata.name)
    return context.retry


def silence(pod: Pod) -> tuple[ReasonCode, str]:
    """Return the code and detail for a Pod without a result of a scheduler."""
    gates = sorted({gate.name for gate in pod.spec.scheduling_gates})
    if gates:
        return ReasonCode.WAITING_FOR_GATE, ", ".join(gates)
    scheduler = pod.spec.scheduler_name
    name = pod.metadata.name
    detail = f"no scheduler has looked at Pod {name} (schedulerName {scheduler})"
    return ReasonCode.WAITING_FOR_SCHEDULER, detail


def _waiting_reason(pod: Pod) -> str:
    """Return the first container's reason for not running."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    reasons = (s.state.waiting.reason for s in statuses if s.state.waiting is not None)
    return next(filter(None, reasons), "not started yet")


async def wait_for_pod_gone(context: ReconcileContext, workload: Workload, pod: Pod) -> Result:
    """Report a Pod that is being deleted and still exists after the grace period."""
    age = context.local_state.ages.age(Milestone.POD_DELETION_REQUESTED, workload, pod)
    remaining_seconds = (STATUS_GRACE - (age or timedelta())).total_seconds()
    if remaining_seconds > 0:
        return Result(requeue_after_seconds=remaining_seconds)
    reason = sentence(ReasonCode.WAITING_FOR_POD_GONE, pod_and_node(pod))
    await context.report(workload, StatusUpdate(reason=reason))
    return context.retry


def pod_and_node(pod: Pod) -> str:
    """Return the name of a Pod and its node, for a reason."""
    return f"{pod.metadata.name} on {pod.spec.node_name or 'no node'}"


async def report_no_capacity(
    context: ReconcileContext, workload: Workload, request: PlacementRequest, refused_pod: Pod | None = None
) -> None:
    """Report why nothing fits now. The condition quotes kube-scheduler if it refused the Pod."""
    words = refused_pod.scheduled.message if refused_pod is not None and refused_pod.scheduled else ""
    quoted = f"; kube-scheduler: {words}" if words else ""
    if lacks_device_class(context):
        detail = f"device class {context.settings.device_class} does not exist"
        text = sentence(ReasonCode.INVALID_CONFIGURATION, detail)
        condition = PlacedUpdate(False, ReasonCode.INVALID_CONFIGURATION, text + quoted)
        await _report_waiting(context, workload, text, condition)
        return
    refusals = context.local_state.place_holds.refusals(workload.uid)
    refused_devices = _refused_devices(context, request, refused_pod)
    explanation = context.fleet.explain(request, refusals, refused_devices)
    if explanation.lacks_causes:
        # The queue activates the worker once the caches show what is missing now.
        context.scheduling_queue.mark_unexplained(ObjectKey.of(workload))
    code = ReasonCode.WAITING_FOR_CAPACITY if refused_pod is None else ReasonCode.UNSCHEDULABLE
    kinds = refusal_kinds(words)
    reason = explanation.sentence
    if kinds:
        reason = truncate(f"{reason}; kube-scheduler: {', '.join(kinds)}", REASON_MAX_CHARACTERS)
    condition = PlacedUpdate(False, code, explanation.sentence + quoted)
    await _report_waiting(context, workload, reason, condition)


def lacks_device_class(context: ReconcileContext) -> bool:
    """Return whether the DeviceClass of the claims does not exist: kube-scheduler then refuses every Pod."""
    key = ObjectKey("", context.settings.device_class)
    return context.caches.device_classes.store.get(key) is None


def _refused_devices(context: ReconcileContext, request: PlacementRequest, pod: Pod | None) -> str:
    """Return which free devices kube-scheduler has refused for long enough, empty if there are none.

    The selectors of the DeviceClass are not evaluated, and claims of others are not read. The message of
    kube-scheduler affects only this sentence.
    """
    message = pod.scheduled.message if pod is not None and pod.scheduled is not None else ""
    device = context.fleet.free_device(request) if _DEVICES_REFUSED in message else None
    seconds = context.local_state.refused_devices.observe(request.worker_uid, device)
    if device is None or seconds < REFUSED_DEVICE_SECONDS:
        return ""
    return (
        f"kube-scheduler refuses free devices of {device.shape.name}: device class "
        f"{context.settings.device_class} does not select them, or claims of others hold them"
    )


async def report_predecessor_claim(context: ReconcileContext, workload: Workload, name: str) -> None:
    """Report that an earlier claim of this worker is still ending. The timeout does not count this wait."""
    context.local_state.ages.exempt(workload.uid)
    claim = context.claim(name)
    node = convert.claim_node(claim) if claim is not None else ""
    detail = f"{name} is still ending{f' on {node}' if node else ''}"
    await report_pending(context, workload, ReasonCode.WAITING_FOR_PREDECESSOR_CLAIM, detail)


async def report_pending(
    context: ReconcileContext, workload: Workload, code: ReasonCode, detail: str
) -> None:
    """Report that a worker waits for something other than capacity."""
    text = sentence(code, detail)
    await _report_waiting(context, workload, text, PlacedUpdate(False, code, text))


async def _report_waiting(
    context: ReconcileContext, workload: Workload, reason: str, condition: PlacedUpdate, pod_name: str = ""
) -> None:
    status = workload.status
    details = _details(context, workload, status.memory_per_device, pod_name or status.pod_name)
    update = StatusUpdate(phase=Phase.PENDING, reason=reason, condition=condition, details=details)
    await context.report(workload, update)


def _pod_details(context: ReconcileContext, workload: Workload, pod: Pod) -> PlacementDetails:
    request = context.requests.of(workload)
    memory = whole_gib(request.memory_bytes) if request else workload.status.memory_per_device
    details = _details(context, workload, memory, pod.metadata.name)
    return details if details.node_name else replace(details, node_name=pod.spec.node_name)


def _details(context: ReconcileContext, workload: Workload, memory: str, pod_name: str) -> PlacementDetails:
    """Return the details of the claim's current allocation; without one the worker is on no node."""
    claim = context.claim(workload.status.claim_name)
    if claim is None or claim.status.allocation is None:
        return PlacementDetails(pod_name=pod_name, memory_per_device=memory)
    device_count = len(claim.status.allocation.devices.results)
    return PlacementDetails(pod_name, convert.claim_node(claim), device_count, memory)
