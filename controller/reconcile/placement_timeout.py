"""The placement timeout: a worker that is not placed for that long fails, and can never start later.

It counts from `Placed`'s last transition to False, or from creation where that was never written; waiting
for the end of an own predecessor claim does not count. Order down: the Pod first, on the version that showed
it unbound (a conflict means no time-out) or shown absent by a fresh read; then `Failed`; then seat and claim.
"""

from __future__ import annotations

from datetime import timedelta

from controller.api.core import Pod
from controller.api.reasons import Phase, ReasonCode, has_code, sentence
from controller.api.status import PlacedUpdate, StatusUpdate
from controller.api.workload import Workload
from controller.config.durations import format_duration
from controller.reconcile.ages import Milestone
from controller.reconcile.context import ReconcileContext
from controller.reconcile.teardown import Departure

LAST_CHANCE = timedelta(seconds=10)
"""How long a Pod that was created at the very end may wait for its verdict."""


class TimeLimit:
    """Fails workers that waited too long."""

    def __init__(self, context: ReconcileContext, departure: Departure) -> None:
        self._context = context
        self._departure = departure

    def remaining_seconds(self, workload: Workload) -> float | None:
        """How long this worker may go on waiting; `None`: for ever, or it is placed."""
        timeout_seconds = self._context.settings.placement_timeout_seconds
        condition = workload.placed_condition
        if not timeout_seconds or (condition is not None and condition.status == "True"):
            return None
        memory = self._context.local_state
        since = (
            memory.ages.since(Milestone.WAITING_BEGAN, workload, None),
            memory.uncounted.since(workload.uid),
        )
        waited = min(age for age in since if age is not None)
        return (timedelta(seconds=timeout_seconds) - waited).total_seconds()

    def last_chance_seconds(self, workload: Workload, pod: Pod | None) -> float:
        """How long kube-scheduler still has to answer for a Pod that was created just now."""
        age = self._context.local_state.ages.since(Milestone.POD_CREATED, workload, pod)
        return 0.0 if age is None else (LAST_CHANCE - age).total_seconds()

    async def expire(self, workload: Workload, pod: Pod | None) -> None:
        """Withdraw Pod, seat and claim of a worker that nothing took. Raises `Conflict`: no time-out."""
        if pod is not None:
            await self._context.writer.delete_pod(pod, on_version=True)
        elif await self._context.live.pod_of(workload.name):
            self._context.requeue(workload)
            return
        waited = format_duration(self._context.settings.placement_timeout_seconds)
        last = workload.status.reason or "no verdict from kube-scheduler"
        reason = sentence(ReasonCode.PLACEMENT_TIMEOUT, f"waited {waited}; last: {last}")
        never_fit = has_code(last, ReasonCode.NO_CAPACITY)
        verdict = PlacedUpdate(
            False, ReasonCode.UNSATISFIABLE if never_fit else ReasonCode.UNSCHEDULABLE, reason
        )
        failed = await self._context.report(
            workload, StatusUpdate(phase=Phase.FAILED, reason=reason, condition=verdict)
        )
        await self._departure.withdraw(failed)
