"""What a worker says while it waits: the rows of the contract's status table with phase `Pending`.

Each method writes the status if its code or causes changed and returns `None`: the caller has nothing more
to do until a wake-up, or the retry interval.
"""

from __future__ import annotations

from datetime import timedelta

from controller import translate
from controller.core import Pod
from controller.reasons import Code, Phase, sentence
from controller.reconcile.ages import Moment
from controller.reconcile.tools import Tools
from controller.reconcile.whereabouts import whereabouts
from controller.status import Outcome, Verdict
from controller.workload import Workload
from informers.keys import ObjectKey
from placement.types import Explanation, Request

POD_GONE_GRACE = timedelta(seconds=10)
"""How long a Pod may take to end before the status speaks of it."""


class Waiting:
    """Writes why a worker waits."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def without_claim(self, workload: Workload, request: Request) -> None:
        """No claim yet, and nothing that exists fits now."""
        explanation = self._explain(workload, request)
        verdict = Verdict(False, Code.WAITING_FOR_CAPACITY, explanation.sentence)
        await self._write(workload, explanation.sentence, verdict)

    async def refused_by_scheduler(self, workload: Workload, request: Request, pod: Pod) -> None:
        """The claim is cut and kube-scheduler refused the Pod; its words are in the condition's message."""
        explanation = self._explain(workload, request)
        condition = pod.scheduled
        message = explanation.sentence
        if condition is not None and condition.message:
            message = f"{message}; kube-scheduler: {condition.message}"
        verdict = Verdict(False, Code.UNSCHEDULABLE, message)
        await self._write(workload, explanation.sentence, verdict)

    def _explain(self, workload: Workload, request: Request) -> Explanation:
        """Why it waits. What holds the devices may not be seen yet: then it is looked at again once it is."""
        explanation = self._tools.fleet.explain(request, self._tools.memory.refused.of(workload.uid))
        if explanation.lacks_causes:
            self._tools.line.cannot_explain(ObjectKey.of(workload))
        return explanation

    async def without_device_class(self, workload: Workload) -> None:
        """The DeviceClass is missing: a fault of the configuration, not a busy fleet."""
        name = self._tools.settings.device_class
        await self._coded(workload, Code.INVALID_CONFIGURATION, f"device class {name} does not exist")

    async def for_predecessor_claim(self, workload: Workload, claim: str) -> None:
        """The worker's claim of an earlier life is still ending."""
        self._tools.memory.uncounted.note(workload.uid)
        found = self._tools.claim(claim)
        node = translate.claim_node(found) if found is not None else ""
        where = f" on {node}" if node else ""
        await self._coded(workload, Code.WAITING_FOR_PREDECESSOR_CLAIM, f"{claim} is still ending{where}")

    async def for_predecessor_pod(self, workload: Workload, pod: Pod) -> None:
        """The Pod of an earlier Workload of this name is still ending."""
        where = f" on {pod.spec.node_name}" if pod.bound else ""
        detail = f"{pod.metadata.name} is still ending{where}"
        await self._coded(workload, Code.WAITING_FOR_PREDECESSOR_POD, detail)

    async def for_pod_gone(self, workload: Workload, pod: Pod) -> float:
        """The worker's Pod is being deleted; said from 10 s on. Returns in how many seconds to look again."""
        meta = pod.metadata
        ending = self._tools.memory.ages.since(Moment.POD_DELETION_ASKED, workload, pod)
        remaining_seconds = (POD_GONE_GRACE - (ending or timedelta())).total_seconds()
        if remaining_seconds > 0:
            return remaining_seconds
        reason = sentence(Code.WAITING_FOR_POD_GONE, f"{meta.name} on {pod.spec.node_name or 'no node'}")
        await self._tools.report(workload, Outcome(reason=reason))
        return self._tools.settings.retry_interval_seconds

    async def _coded(self, workload: Workload, code: Code, detail: str) -> None:
        text = sentence(code, detail)
        await self._write(workload, text, Verdict(False, code, text))

    async def _write(self, workload: Workload, reason: str, verdict: Verdict) -> None:
        # Where it was before it lost its place is no longer true.
        status = workload.status
        facts = whereabouts(self._tools, workload, status.memory_per_device, pod_name=status.pod_name)
        outcome = Outcome(phase=Phase.PENDING, reason=reason, verdict=verdict, facts=facts)
        await self._tools.report(workload, outcome)
