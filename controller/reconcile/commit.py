"""The commit of an assignment: the conditional status write between a booked seat and the Pod.

It is tried once, on the version that was decided from. A conflict is never answered by writing again on a
newer version: another process may have written that version to fence this very seat before it releases it.
The commit is *lost* when a fresh read shows that status does not name this claim; the provisional seat is
then given back, by exactly its assignment ID, and the worker is decided on anew (section 4 of the contract).
"""

from __future__ import annotations

from controller.reconcile.departure import Departure
from controller.reconcile.seating import ContendedError, Seating
from controller.reconcile.tools import Tools
from controller.status import Outcome, assignment_of
from controller.workload import Workload
from informers.errors import Conflict, NotFound, OutcomeUnknown, ServerError
from informers.keys import ObjectKey
from ledger.state import SeatRef


class Commit:
    """Commits assignments and gives back seats whose commit is lost."""

    def __init__(self, tools: Tools, departure: Departure) -> None:
        self._tools = tools
        self._departure = departure

    async def assign(self, workload: Workload, outcome: Outcome, seating: Seating) -> Workload:
        """Write the assignment into the status of the Workload that was decided on; returns it as written.

        Raises `ContendedError` where the commit did not come about as decided: the worker looks again.
        """
        try:
            return await self._tools.report(workload, outcome, force=True)
        except (Conflict, NotFound) as error:
            cause: Exception = error
            fresh = await self._tools.writer.fresh_workload(ObjectKey.of(workload))
        except (OutcomeUnknown, ServerError) as error:
            cause = error
            fresh = await self._fenced(workload, seating)
        if fresh is None or fresh.uid != workload.uid or not _names(fresh, seating):
            await self.give_back(workload, seating)
            raise ContendedError(workload.name) from cause
        if assignment_of(fresh) != seating.assignment or fresh.deleting or fresh.terminal:
            # The claim is named, so the seat is not ours to give back: repair or departure takes over.
            raise ContendedError(workload.name) from cause
        return fresh

    async def _fenced(self, workload: Workload, seating: Seating) -> Workload | None:
        """The Workload after a write without an answer, in a version that this write can no longer change.

        A read that does not show it proves nothing: it may still land. So another write goes on top, which a
        late one then conflicts with. Raises `ContendedError` where even that stays open: the seat is left to
        be adopted by the next reconcile.
        """
        fresh = await self._tools.writer.fresh_workload(ObjectKey.of(workload))
        if fresh is None or fresh.uid != workload.uid or _names(fresh, seating):
            return fresh
        if fresh.deleting or fresh.terminal:
            return fresh
        note = f"a write that assigns {seating.assignment.claim} was not answered and does not count"
        try:
            return await self._tools.report(fresh, Outcome(note=note), force=True)
        except (Conflict, NotFound, OutcomeUnknown, ServerError) as error:
            raise ContendedError(workload.name) from error

    async def give_back(self, workload: Workload, seating: Seating) -> None:
        """Release a seat that this process booked and no status names; others' bookings stay."""
        if not seating.wrote:
            return
        ref = SeatRef(workload.name, workload.uid, seating.assignment.assignment_id)
        await self._departure.release_shown_empty(workload, seating.assignment.claim, [ref])


def _names(workload: Workload, seating: Seating) -> bool:
    return workload.status.claim_name == seating.assignment.claim
