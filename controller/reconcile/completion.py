"""Ended or lost? A Pod in a final phase is an outcome only where nothing took it away.

Terminal status first; the record of where the worker ran stays there while its seat is released.
"""

from __future__ import annotations

from enum import Enum, auto

from controller.api.core import Pod
from controller.api.reasons import Code, Phase, sentence
from controller.api.status import Outcome
from controller.api.workload import Workload
from controller.reconcile.context import Tools
from controller.reconcile.teardown import Departure


def is_lost(pod: Pod) -> bool:
    """Whether a finished Pod was taken away: deleted, disrupted, or rejected before any container started."""
    if pod.metadata.deletion_timestamp is not None:
        return True
    if pod.status.phase != "Failed":
        return False
    if pod.disrupted:
        return True
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return not any(s.state.terminated is not None for s in statuses)


class Ending(Enum):
    """What became of a Pod in a final phase."""

    RECORDED = auto()
    """It is an outcome, and the status says so."""
    UNSURE = auto()
    """A fresh read does not agree: the worker looks again."""
    GOING = auto()
    """It is lost and on its way out; the worker is placed again once it is gone."""
    REJECTED = auto()
    """The kubelet refused it before anything started: the next one may fare no better, so not at once."""


class Ended:
    """Records how a worker ended."""

    def __init__(self, tools: Tools, departure: Departure) -> None:
        self._tools = tools
        self._departure = departure

    async def record(self, workload: Workload, pod: Pod) -> Ending:
        """Write the outcome, if a fresh read of the same Pod agrees, and give the seat back."""
        fresh = await self._tools.fresh_pod(workload.name)
        if fresh is None or fresh.metadata.uid != pod.metadata.uid or not fresh.finished:
            self._tools.look_again(workload)
            return Ending.UNSURE
        if is_lost(fresh):
            return await self._replace(workload, fresh)
        outcome = Outcome(phase=Phase.SUCCEEDED, reason="")
        if fresh.status.phase == "Failed":
            outcome = Outcome(phase=Phase.FAILED, reason=sentence(Code.POD_FAILED, failure_message(fresh)))
        await self._departure.withdraw(await self._tools.report(workload, outcome))
        return Ending.RECORDED

    async def _replace(self, workload: Workload, pod: Pod) -> Ending:
        """Let a lost Pod go; its seat waits for the next one."""
        if pod.metadata.deletion_timestamp is not None:
            return Ending.GOING
        if await self._tools.writer.delete_pod(pod):
            self._tools.look_again(workload)
        return Ending.GOING if pod.disrupted else Ending.REJECTED


def failure_message(pod: Pod) -> str:
    """The Pod's own words on its failure: its message, or the first container that ended badly."""
    if pod.status.message:
        return pod.status.message
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = status.state.terminated
        if ended is not None and ended.exit_code != 0:
            words = ": ".join(filter(None, (ended.reason, ended.message)))
            suffix = f" ({words})" if words else ""
            return f"container {status.name} exited with code {ended.exit_code}{suffix}"
    return pod.status.reason or "no reason given"
