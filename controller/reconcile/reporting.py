"""Step 11: what the worker's Pod shows, as phase, condition `Placed` and reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from controller.core import Pod
from controller.reasons import Code, Phase, sentence
from controller.reconcile.ages import Moment
from controller.reconcile.tools import Tools
from controller.reconcile.whereabouts import whereabouts
from controller.status import Facts, Outcome, Verdict
from controller.workload import Workload
from placement.quantity import whole_gib
from placement.types import Request

GRACE = timedelta(seconds=10)
"""How long a Pod may take to start, or a scheduler error to heal, before the status speaks of it."""


class Reporting:
    """Reports on workers whose Pod exists."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def running(self, workload: Workload, request: Request | None, pod: Pod) -> None:
        """The Pod runs: the worker is placed."""
        outcome = Outcome(
            phase=Phase.RUNNING,
            reason="",
            verdict=Verdict(True, Code.PLACED),
            facts=self._facts(workload, request, pod),
        )
        await self._tools.report(workload, outcome)

    async def starting(self, workload: Workload, request: Request | None, pod: Pod) -> float | None:
        """The Pod is bound and does not run yet; returns in how many seconds to look again, if at all."""
        remaining_seconds = self._remaining_seconds(workload, pod)
        if remaining_seconds > 0:
            return remaining_seconds
        reason = sentence(Code.CONTAINER_WAITING, _waiting_reason(pod))
        outcome = Outcome(
            phase=Phase.PLACING,
            reason=reason,
            verdict=Verdict(False, Code.NOT_STARTED, reason),
            facts=self._facts(workload, request, pod),
        )
        await self._tools.report(workload, outcome)
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
            Code.SCHEDULER_ERROR, "kube-scheduler fails at this Pod; its words are in the condition"
        )
        verdict = Verdict(False, Code.SCHEDULER_ERROR, condition.message)
        facts = self._facts(workload, None, pod)
        outcome = Outcome(phase=Phase.PENDING, reason=reason, verdict=verdict, facts=facts)
        await self._tools.report(workload, outcome)
        return None

    def _remaining_seconds(self, workload: Workload, pod: Pod) -> float:
        """What is left of the grace since kube-scheduler spoke; 0 where it did not say when."""
        age = self._tools.memory.ages.since(Moment.POD_JUDGED, workload, pod)
        return 0.0 if age is None else (GRACE - age).total_seconds()

    def _facts(self, workload: Workload, request: Request | None, pod: Pod) -> Facts:
        memory = whole_gib(request.memory_bytes) if request else workload.status.memory_per_device
        facts = whereabouts(self._tools, workload, memory, pod_name=pod.metadata.name)
        return facts if facts.node_name else replace(facts, node_name=pod.spec.node_name)


def _waiting_reason(pod: Pod) -> str:
    """The first container's reason for not running."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waiting = (s.state.waiting.reason for s in statuses if s.state.waiting is not None)
    return next(filter(None, waiting), "not started yet")
