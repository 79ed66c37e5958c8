"""Contract §5.5 and contract §5.10: the owner of the worker's Pod, and its creation after the assignment."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from enum import Enum, auto

from controller.api import convert
from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.names import ASSIGNMENT_ENV
from controller.api.reasons import Phase, ReasonCode
from controller.api.status import Assignment, PlacedUpdate, StatusUpdate, assignment_of
from controller.api.worker_pod_document import pod_document
from controller.api.workload import Workload
from controller.cluster.caches import controlling_workload
from controller.reconcile import reporting, teardown
from controller.reconcile.context import ContendedError, ReconcileContext, Scope, own_claim_names
from controller.reconcile.local_state import Milestone
from informers.errors import AlreadyExists, BadRequest, Invalid, OutcomeUnknown, ServerError
from informers.queue.runner import Result
from placement.device_request import REQUEST_NAME
from placement.types import PreferredNode

SCHEDULER_BACKOFF = timedelta(seconds=10)
"""The longest pause after which kube-scheduler tries a Pod again that nothing else activates."""

PATIENCE_WHILE_BINDING = timedelta(minutes=2)
PATIENCE_WITH_CONDITIONS = timedelta(seconds=600)
"""For an allocation with `bindingConditions`: kube-scheduler itself waits that long for the driver."""

SEAT_KEPT = timedelta(minutes=2)
"""How long a new seat waits for the end of the Pod of the earlier assignment."""


class PodOwnership(Enum):
    """The owner of the Pod with the worker's name."""

    ABSENT = auto()
    OURS = auto()
    PREDECESSOR = auto()
    """An earlier Workload of the same name."""
    FOREIGN = auto()


def ownership_of(pod: Pod | None, workload: Workload) -> PodOwnership:
    """Return the owner by controller reference or annotation: labels and names prove nothing."""
    if pod is None:
        return PodOwnership.ABSENT
    owner = controlling_workload(pod)
    if owner is None:
        return PodOwnership.FOREIGN
    if owner.uid == workload.uid:
        return PodOwnership.OURS
    # A predecessor's Pod without its owner reference was orphaned on purpose: it is left alone.
    is_predecessor = owner.name == workload.name and pod.owned_by(owner.uid)
    return PodOwnership.PREDECESSOR if is_predecessor else PodOwnership.FOREIGN


def assignment_on(pod: Pod, workload: Workload) -> Assignment:
    """Return the assignment that a Pod was created for.

    Other containers' variables do not count, and neither do the claims of other entries: admission may add
    both.
    """
    assignment_id = pod.env(workload.spec.worker_container_name, ASSIGNMENT_ENV)
    return Assignment(pod.claim_of_entry(REQUEST_NAME), assignment_id)


def is_unschedulable(pod: Pod) -> bool:
    """Return whether the last result of kube-scheduler is that this unbound Pod fits nowhere."""
    condition = pod.scheduled
    return (
        not pod.bound
        and condition is not None
        and (condition.status, condition.reason) == ("False", "Unschedulable")
    )


def is_silent(pod: Pod) -> bool:
    """Return whether no scheduler has given this unbound Pod a result: it is gated, or no scheduler runs."""
    condition = pod.scheduled
    return not pod.bound and (condition is None or condition.reason == "SchedulingGated")


def is_left(pod: Pod, workload: Workload) -> bool:
    """Return whether the worker has left this Pod: it can never run, and has an earlier assignment."""
    return pod.never_runs and assignment_on(pod, workload) != assignment_of(workload)


def verdict_delay_seconds(
    context: ReconcileContext, workload: Workload, claim: ResourceClaim, pod: Pod
) -> float:
    """Return how long a refusal must still last before the worker acts on it; 0 if it acts now.

    On an unallocated claim, the worker acts at once. On an allocated claim, the refusal must outlast the
    back-off of kube-scheduler: until then the scheduler's cache may lag, or a Pod there may be ending. While
    kube-scheduler binds, the Pod still carries its earlier refusal. This is the case while a node is
    nominated, and after an allocation that is newer than the refusal.
    """
    state = context.local_state
    milestones = (Milestone.POD_CREATED, Milestone.POD_SCHEDULED_CHANGED)
    ages = (state.ages.age(milestone, workload, pod) for milestone in milestones)
    refused_for = min((age for age in ages if age is not None), default=timedelta())
    patience = PATIENCE_WITH_CONDITIONS if has_binding_conditions(claim) else PATIENCE_WHILE_BINDING
    nominated_for = state.nominations.age(workload.uid, pod)
    delays = [timedelta()] if nominated_for is None else [patience - nominated_for]
    if claim.allocated:
        allocated_for = state.allocation_times.age(claim)
        delays.append(SCHEDULER_BACKOFF - refused_for)
        if allocated_for < refused_for:
            delays.append(patience - allocated_for)
    return max(delay.total_seconds() for delay in (timedelta(), *delays))


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Return whether the driver has to prepare an allocated device before the Pod is bound."""
    allocation = claim.status.allocation
    return allocation is not None and any(row.binding_conditions for row in allocation.devices.results)


async def resolve_ownership(context: ReconcileContext, scope: Scope) -> Result | None:
    """Fail the Workload if a foreign Pod has its Pod name; delete a predecessor's Pod."""
    workload, pod = scope.workload, scope.pod
    ownership = ownership_of(pod, workload)
    if pod is not None and ownership is PodOwnership.FOREIGN:
        live = await context.live.pod_of(workload.name)
        if ownership_of(live, workload) is not PodOwnership.FOREIGN:
            context.requeue(workload)
            return context.retry
        detail = f"Pod {pod.metadata.name} exists and belongs to somebody else"
        await teardown.fail(context, workload, ReasonCode.POD_CONFLICT, detail)
        return Result()
    if pod is not None and ownership is PodOwnership.PREDECESSOR:
        if pod.metadata.deletion_timestamp is None:
            # Live reads must agree: in a lagging cache, a successor's Pod looks like a predecessor's.
            current, live = await context.read_live(workload), await context.live.pod_of(workload.name)
            if current is None or live is None or ownership_of(live, current) is not ownership:
                raise ContendedError(workload.name)
            if await context.writer.delete_pod(live):
                context.requeue(workload)
        place = f" on {pod.spec.node_name}" if pod.bound else ""
        detail = f"{pod.metadata.name} is still ending{place}"
        await reporting.report_pending(context, workload, ReasonCode.WAITING_FOR_PREDECESSOR_POD, detail)
        return context.retry
    return None


async def wait_for_pod(context: ReconcileContext, scope: Scope) -> Result | None:
    """Wait until a Pod that is being deleted is gone, and for the back-off after a rejected Pod.

    A new seat is kept for two minutes while somebody's finalizer keeps the Pod of the earlier assignment.
    """
    workload, pod = scope.workload, scope.pod
    if pod is not None and pod.metadata.deletion_timestamp is not None:
        kept_for = context.local_state.ages.age(Milestone.POD_DELETION_REQUESTED, workload, pod)
        is_kept_too_long = kept_for is not None and kept_for >= SEAT_KEPT
        if workload.status.claim_name and is_left(pod, workload) and is_kept_too_long:
            detail = reporting.pod_and_node(pod)
            workload = await teardown.clear(context, workload, ReasonCode.WAITING_FOR_POD_GONE, detail)
        return await reporting.wait_for_pod_gone(context, workload, pod)
    seconds = max(
        context.local_state.rejection_backoff.remaining_seconds(workload.uid),
        context.local_state.lost_pods.remaining_seconds(workload.uid),
        context.local_state.pod_budget.wait_seconds(workload.uid),
    )
    return Result(requeue_after_seconds=seconds) if pod is None and seconds > 0 else None


async def create_missing(context: ReconcileContext, scope: Scope) -> Result | None:
    """Create the Pod of an assigned worker.

    For an assignment from an earlier reconcile, a status write with `Placing` comes first. It proves that the
    Workload has not ended. It also fences another process that is about to clear this assignment. That
    process would otherwise see no Pod yet, and release the seat of the Pod created here.
    """
    if scope.pod is not None:
        return None
    if not scope.committed:
        update = recreation_update(context, scope.workload)
        scope.workload = await context.fencing_write(scope.workload, "the Pod is made again", update)
        context.local_state.lost_pods.record_reported(scope.workload.uid)
    return await create(context, scope.workload) or context.retry


def recreation_update(context: ReconcileContext, workload: Workload) -> StatusUpdate:
    """Return the status of a worker whose Pod is made again, with the loss that is not reported yet."""
    lost = context.local_state.lost_pods.unreported(workload.uid)
    reason = context.booked_reason(workload, workload.status.claim_name)
    update = StatusUpdate(phase=Phase.PLACING, reason=reason)
    if lost is None:
        return update
    condition = PlacedUpdate(False, ReasonCode.NOT_STARTED, f"The last Pod was lost: {lost.reason}")
    return replace(update, condition=condition, restarts=workload.status.restarts + lost.had_run)


async def create(context: ReconcileContext, workload: Workload) -> Result | None:
    """Create the Pod of an assignment that this reconcile has just written; `None` if it now exists."""
    document = pod_document(
        workload,
        assignment_of(workload),
        _preferred_nodes(context, workload),
        required_node=_required_node(context, workload),
    )
    try:
        created = await context.writer.create_pod(document)
    except (AlreadyExists, OutcomeUnknown, ServerError):
        return await _read_back(context, workload)
    except (Invalid, BadRequest) as error:
        await teardown.fail(context, workload, ReasonCode.INVALID_TEMPLATE, error.message)
        return Result()
    changed = _changed_by_admission(created, workload)
    if changed:
        # With this admission the worker can never run, and the next Pod would be changed in the same way.
        await context.writer.delete_pod(created)
        return await _reject(context, workload, f"admission changes {changed}")
    return None


async def _reject(context: ReconcileContext, workload: Workload, message: str) -> Result:
    """Report a Pod that the cluster's rules do not admit now, release everything, and back off."""
    await teardown.clear(context, workload, ReasonCode.POD_REJECTED, message, message=message)
    seconds = context.local_state.rejection_backoff.add(workload.uid)
    return Result(requeue_after_seconds=seconds)


def _changed_by_admission(created: Pod, workload: Workload) -> str:
    """Return which of our parts the created Pod lacks, empty if it can run this worker's assignment."""
    wanted, found = assignment_of(workload), assignment_on(created, workload)
    if found.claim != wanted.claim:
        return f"the entry {REQUEST_NAME} of spec.resourceClaims"
    if found.assignment_id != wanted.assignment_id:
        return f"the variable {ASSIGNMENT_ENV} of container {workload.spec.worker_container_name}"
    is_ours = ownership_of(created, workload) is PodOwnership.OURS
    return "" if is_ours else "the owner of the Pod"


async def _read_back(context: ReconcileContext, workload: Workload) -> Result | None:
    """Read the existing Pod of that name: ours if only the answer was lost, otherwise another one."""
    pod = await context.live.pod_of(workload.name)
    if pod is None:
        # The server failed before it stored anything, and may continue to fail.
        raise ContendedError(workload.name)
    is_ours = ownership_of(pod, workload) is PodOwnership.OURS
    if is_ours and assignment_on(pod, workload) == assignment_of(workload):
        return None
    context.requeue(workload)
    return context.retry


def _required_node(context: ReconcileContext, workload: Workload) -> str:
    """Return the node of another worker's claim: this Pod must not get that claim a device elsewhere."""
    name = workload.status.claim_name
    claim = None if name in own_claim_names(workload) else context.claim(name)
    return "" if claim is None else convert.claim_node(claim)


def _preferred_nodes(context: ReconcileContext, workload: Workload) -> tuple[PreferredNode, ...]:
    """Return the order of the shapes as node preferences: `firstAvailable` orders within one node only."""
    claim = context.claim(workload.status.claim_name)
    if claim is None or claim.allocated:
        return ()
    request = context.requests.of(workload)
    return () if request is None else context.fleet.preferred_nodes(request)
