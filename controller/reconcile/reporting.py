"""Contract §5.11: what the worker's Pod shows, as phase, condition `Placed` and reason.

What a worker says while it waits: the rows of the status table (contract §2.1) with phase `Pending`.

Each method writes the status if its code or causes changed and returns `None`: the caller has nothing more
to do until a wake-up, or the retry interval.

Where a worker is and what it occupies, by the allocation of its claim.
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
from controller.reconcile.context import ReconcileContext
from informers.api import ObjectKey
from placement.quantity import whole_gib
from placement.types import Explanation, PlacementRequest

GRACE = timedelta(seconds=10)
"""How long a Pod may take to start, or a scheduler error to heal, before the status speaks of it."""


class Reporting:
    """Reports on workers whose Pod exists."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def running(self, workload: Workload, request: PlacementRequest | None, pod: Pod) -> None:
        """The Pod runs: the worker is placed."""
        outcome = StatusUpdate(
            phase=Phase.RUNNING,
            reason="",
            condition=PlacedUpdate(True, ReasonCode.PLACED),
            details=self._facts(workload, request, pod),
        )
        await self._context.report(workload, outcome)

    async def starting(self, workload: Workload, request: PlacementRequest | None, pod: Pod) -> float | None:
        """The Pod is bound and does not run yet; returns in how many seconds to look again, if at all."""
        remaining_seconds = self._remaining_seconds(workload, pod)
        if remaining_seconds > 0:
            return remaining_seconds
        reason = sentence(ReasonCode.CONTAINER_WAITING, _waiting_reason(pod))
        outcome = StatusUpdate(
            phase=Phase.PLACING,
            reason=reason,
            condition=PlacedUpdate(False, ReasonCode.NOT_STARTED, reason),
            details=self._facts(workload, request, pod),
        )
        await self._context.report(workload, outcome)
        return None

    async def scheduler_error(self, workload: Workload, pod: Pod) -> float | None:
        """kube-scheduler failed at the Pod; the status says so if that lasts."""
        condition = pod.scheduled
        if condition is None or condition.reason != "SchedulerError":
            return None
        remaining_seconds = self._remaining_seconds(workload, pod)
        if remaining_seconds > 0:
            return remaining_seconds
        reason = sentence(
            ReasonCode.SCHEDULER_ERROR, "kube-scheduler fails at this Pod; its words are in the condition"
        )
        verdict = PlacedUpdate(False, ReasonCode.SCHEDULER_ERROR, condition.message)
        facts = self._facts(workload, None, pod)
        outcome = StatusUpdate(phase=Phase.PENDING, reason=reason, condition=verdict, details=facts)
        await self._context.report(workload, outcome)
        return None

    def _remaining_seconds(self, workload: Workload, pod: Pod) -> float:
        """What is left of the grace since kube-scheduler spoke; 0 where it did not say when."""
        age = self._context.local_state.ages.since(Milestone.POD_JUDGED, workload, pod)
        return 0.0 if age is None else (GRACE - age).total_seconds()

    def _facts(self, workload: Workload, request: PlacementRequest | None, pod: Pod) -> PlacementDetails:
        memory = whole_gib(request.memory_bytes) if request else workload.status.memory_per_device
        facts = whereabouts(self._context, workload, memory, pod_name=pod.metadata.name)
        return facts if facts.node_name else replace(facts, node_name=pod.spec.node_name)


def _waiting_reason(pod: Pod) -> str:
    """The first container's reason for not running."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waiting = (s.state.waiting.reason for s in statuses if s.state.waiting is not None)
    return next(filter(None, waiting), "not started yet")


POD_GONE_GRACE = timedelta(seconds=10)
"""How long a Pod may take to end before the status speaks of it."""


class Waiting:
    """Writes why a worker waits."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def without_claim(self, workload: Workload, request: PlacementRequest) -> None:
        """No claim yet, and nothing that exists fits now."""
        explanation = self._explain(workload, request)
        verdict = PlacedUpdate(False, ReasonCode.WAITING_FOR_CAPACITY, explanation.sentence)
        await self._write(workload, explanation.sentence, verdict)

    async def refused_by_scheduler(self, workload: Workload, request: PlacementRequest, pod: Pod) -> None:
        """The claim is cut and kube-scheduler refused the Pod; its words are in the condition's message."""
        explanation = self._explain(workload, request)
        condition = pod.scheduled
        message = explanation.sentence
        if condition is not None and condition.message:
            message = f"{message}; kube-scheduler: {condition.message}"
        verdict = PlacedUpdate(False, ReasonCode.UNSCHEDULABLE, message)
        await self._write(workload, explanation.sentence, verdict)

    def _explain(self, workload: Workload, request: PlacementRequest) -> Explanation:
        """Why it waits. What holds the devices may not be seen yet: then it is looked at again once it is."""
        explanation = self._context.fleet.explain(request, self._context.local_state.refused.of(workload.uid))
        if explanation.lacks_causes:
            self._context.scheduling_queue.mark_unexplained(ObjectKey.of(workload))
        return explanation

    async def without_device_class(self, workload: Workload) -> None:
        """The DeviceClass is missing: a fault of the configuration, not a busy fleet."""
        name = self._context.settings.device_class
        await self._coded(workload, ReasonCode.INVALID_CONFIGURATION, f"device class {name} does not exist")

    async def for_predecessor_claim(self, workload: Workload, claim: str) -> None:
        """The worker's claim of an earlier life is still ending."""
        self._context.local_state.uncounted.note(workload.uid)
        found = self._context.claim(claim)
        node = convert.claim_node(found) if found is not None else ""
        where = f" on {node}" if node else ""
        await self._coded(
            workload, ReasonCode.WAITING_FOR_PREDECESSOR_CLAIM, f"{claim} is still ending{where}"
        )

    async def for_predecessor_pod(self, workload: Workload, pod: Pod) -> None:
        """The Pod of an earlier Workload of this name is still ending."""
        where = f" on {pod.spec.node_name}" if pod.bound else ""
        detail = f"{pod.metadata.name} is still ending{where}"
        await self._coded(workload, ReasonCode.WAITING_FOR_PREDECESSOR_POD, detail)

    async def for_pod_gone(self, workload: Workload, pod: Pod) -> float:
        """The worker's Pod is being deleted; said from 10 s on. Returns in how many seconds to look again."""
        meta = pod.metadata
        ending = self._context.local_state.ages.since(Milestone.POD_DELETION_ASKED, workload, pod)
        remaining_seconds = (POD_GONE_GRACE - (ending or timedelta())).total_seconds()
        if remaining_seconds > 0:
            return remaining_seconds
        reason = sentence(
            ReasonCode.WAITING_FOR_POD_GONE, f"{meta.name} on {pod.spec.node_name or 'no node'}"
        )
        await self._context.report(workload, StatusUpdate(reason=reason))
        return self._context.settings.retry_interval_seconds

    async def _coded(self, workload: Workload, code: ReasonCode, detail: str) -> None:
        text = sentence(code, detail)
        await self._write(workload, text, PlacedUpdate(False, code, text))

    async def _write(self, workload: Workload, reason: str, verdict: PlacedUpdate) -> None:
        # Where it was before it lost its place is no longer true.
        status = workload.status
        facts = whereabouts(self._context, workload, status.memory_per_device, pod_name=status.pod_name)
        outcome = StatusUpdate(phase=Phase.PENDING, reason=reason, condition=verdict, details=facts)
        await self._context.report(workload, outcome)


def whereabouts(
    context: ReconcileContext, workload: Workload, memory_per_device: str, *, pod_name: str = ""
) -> PlacementDetails:
    """The facts that ride along with a status write. A claim that lost its allocation is on no node."""
    claim = context.claim(workload.status.claim_name)
    allocation = claim.status.allocation if claim is not None else None
    return PlacementDetails(
        pod_name=pod_name,
        node_name=convert.claim_node(claim) if claim is not None else "",
        device_count=len(allocation.devices.results) if allocation is not None else 0,
        memory_per_device=memory_per_device,
    )
