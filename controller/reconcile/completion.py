"""Ended or lost? A Pod in a final phase is an outcome only where nothing took it away.

Terminal status first; the record of where the worker ran stays there while its seat is released.
"""

from __future__ import annotations

from enum import Enum, auto

from controller.api.core import Pod
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.status import StatusUpdate
from controller.api.workload import Workload
from controller.reconcile.context import ReconcileContext
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

    def __init__(self, context: ReconcileContext, departure: Departure) -> None:
        self._context = context
        self._departure = departure

    async def record(self, workload: Workload, pod: Pod) -> Ending:
        """Write the outcome, if a fresh read of the same Pod agrees, and give the seat back."""
        live = await self._context.live.pod_of(workload.name)
        if live is None or live.metadata.uid != pod.metadata.uid or not live.finished:
            self._context.requeue(workload)
            return Ending.UNSURE
        if is_lost(live):
            return await self._replace(workload, live)
        outcome = StatusUpdate(phase=Phase.SUCCEEDED, reason="")
        if live.status.phase == "Failed":
            outcome = StatusUpdate(
                phase=Phase.FAILED, reason=sentence(ReasonCode.POD_FAILED, failure_message(live))
            )
        await self._departure.withdraw(await self._context.report(workload, outcome))
        return Ending.RECORDED

    async def _replace(self, workload: Workload, pod: Pod) -> Ending:
        """Let a lost Pod go; its seat waits for the next one."""
        if pod.metadata.deletion_timestamp is not None:
            return Ending.GOING
        if await self._context.writer.delete_pod(pod):
            self._context.requeue(workload)
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
