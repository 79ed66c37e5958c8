"""The commit of an assignment: the conditional status write between a booked seat and the Pod.

A lost answer or a conflict is resolved by a fresh read. The commit is *lost* when that shows a Workload that
ended, is being deleted or was assigned elsewhere: the provisional seat is then given back, by exactly its
assignment ID, unless a Pod of ours is on that claim (section 4 of the contract).
"""

from __future__ import annotations

from controller.names import pod_name
from controller.reconcile.seating import ContendedError, Seating
from controller.reconcile.tools import Tools
from controller.status import UNASSIGNED, Outcome, assignment_of
from controller.workload import Workload
from informers.errors import Conflict, NotFound, OutcomeUnknown, ServerError
from informers.keys import ObjectKey
from ledger.book import Contended
from ledger.state import SeatRef

MAX_COMMIT_TRIES = 5


class Commit:
    """Commits assignments and gives back seats whose commit is lost."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def assign(self, workload: Workload, outcome: Outcome, seating: Seating) -> Workload | None:
        """Write the assignment into the status of the Workload that was decided on.

        Returns the Workload as written, or `None` where the commit is lost and the seat was given back.
        """
        before = assignment_of(workload)
        current: Workload | None = workload
        for _ in range(MAX_COMMIT_TRIES):
            if current is None or not _is_open(workload, current):
                break
            named = assignment_of(current)
            if named == seating.assignment:
                return current
            if named not in (before, UNASSIGNED):
                break
            try:
                return await self._tools.report(current, outcome, force=True)
            except (Conflict, OutcomeUnknown, ServerError, NotFound):
                current = await self._tools.writer.fresh_workload(ObjectKey.of(workload))
        else:
            raise ContendedError(workload.name)
        await self.give_back(workload, seating)
        return None

    async def give_back(self, workload: Workload, seating: Seating) -> None:
        """Release a seat that this process booked and no status names; others' bookings stay."""
        if not seating.wrote:
            return
        pod = await self._tools.writer.fresh_pod(pod_name(workload.name), self._tools.settings.namespace)
        if pod is not None and seating.assignment.claim in pod.claim_names:
            return
        ref = SeatRef(workload.name, workload.uid, seating.assignment.assignment_id)
        released = await self._tools.book.release(seating.assignment.claim, [ref])
        if isinstance(released, Contended):
            raise ContendedError(released.claim)


def _is_open(decided_on: Workload, current: Workload) -> bool:
    """Whether this Workload may still be assigned: the same object, neither ending nor ended."""
    return current.uid == decided_on.uid and not current.deleting and not current.terminal
