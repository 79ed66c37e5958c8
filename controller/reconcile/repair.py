"""Step 6, as far as Pod and status disagree about the worker's assignment.

The process that runs is what matters: a live Pod's claim and stamp win where its claim lives and status names
nothing, or where that claim's ledger holds exactly this booking. Otherwise the Pod goes. Both only after
fresh reads agree, since a cache may be behind another process's move.
"""

from __future__ import annotations

from controller.names import pod_name
from controller.reconcile.tools import Tools
from controller.reconcile.workerpods import Standing, assignment_on, standing_of
from controller.status import Assignment, Outcome, assignment_of
from controller.workload import Workload
from informers.keys import ObjectKey
from ledger.names import is_claim_name
from ledger.state import SeatRef


class Repair:
    """Makes status and Pod name the same assignment."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def agree(self, workload: Workload) -> None:
        """Let the Pod's assignment win, or delete the Pod; the worker is looked at again afterwards."""
        self._tools.look_again(workload)
        namespace = self._tools.settings.namespace
        pod = await self._tools.writer.fresh_pod(pod_name(workload.name), namespace)
        fresh = await self._tools.writer.fresh_workload(ObjectKey.of(workload))
        if pod is None or fresh is None or fresh.uid != workload.uid:
            return
        stamp = assignment_on(pod)
        if standing_of(pod, fresh) is not Standing.OURS or stamp == assignment_of(fresh):
            return
        if await self._pod_wins(fresh, stamp):
            await self._tools.report(fresh, Outcome(assignment=stamp))
        else:
            await self._tools.writer.delete_pod(pod)

    async def _pod_wins(self, workload: Workload, stamp: Assignment) -> bool:
        if not is_claim_name(stamp.claim) or not stamp.assignment_id:
            return False
        claim = await self._tools.writer.fresh_claim(stamp.claim, self._tools.settings.namespace)
        if claim is None or claim.deleting:
            return False
        if not workload.status.claim_name:
            return True
        ledger = await self._tools.fresh_ledger(stamp.claim)
        ref = SeatRef(workload.name, workload.uid, stamp.assignment_id)
        return ledger is not None and ledger.holds(ref)
