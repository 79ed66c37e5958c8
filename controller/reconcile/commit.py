"""The commit of an assignment: the conditional status write between a booked seat and the Pod.

It is tried once, on the version that was decided from. A conflict is never answered by writing again on a
newer version: another process may have written that version to fence this very seat before it releases it.
The commit is *lost* when a fresh read shows that status does not name this claim; the provisional seat is
then given back, by exactly its assignment ID, and the worker is decided on anew (section 4 of the contract).

A seat may be another process's, too: adopting one gives it a new assignment ID, and the process that had
booked it may be about to commit. So nothing is given back before a status write has fenced such commits.
"""

from __future__ import annotations

from controller.api.status import Assignment, Outcome, assignment_of
from controller.api.workload import Workload
from controller.reconcile.context import Tools
from controller.reconcile.seat_booker import ContendedError
from controller.reconcile.teardown import Departure
from informers.api import ObjectKey
from informers.errors import Conflict, NotFound, OutcomeUnknown, ServerError
from ledger.state import SeatRef


class Commit:
    """Commits assignments and gives back seats whose commit is lost."""

    def __init__(self, tools: Tools, departure: Departure) -> None:
        self._tools = tools
        self._departure = departure

    async def assign(self, workload: Workload, outcome: Outcome, booked: Assignment) -> Workload:
        """Write the assignment into the status of the Workload that was decided on; returns it as written.

        Raises `ContendedError` where the commit did not come about as decided: the worker looks again.
        """
        try:
            return await self._tools.report(workload, outcome, force=True)
        except (Conflict, NotFound, OutcomeUnknown, ServerError) as error:
            cause: Exception = error
        fresh = await self._fenced(workload, booked)
        if fresh is None or fresh.uid != workload.uid or not _names(fresh, booked):
            await self._release(workload, booked)
            raise ContendedError(workload.name) from cause
        if assignment_of(fresh) != booked or fresh.deleting or fresh.terminal:
            # The claim is named, so the seat is not ours to give back: repair or departure takes over.
            raise ContendedError(workload.name) from cause
        return fresh

    async def _fenced(self, workload: Workload, booked: Assignment) -> Workload | None:
        """The Workload in a version that no write which assigns this seat can change any more.

        A read that does not show such a write proves nothing: ours may still land if it was not answered,
        and another process's may be on its way. So another write goes on top, which they then conflict with.
        Raises `ContendedError` where even that stays open: the seat is left to be adopted by the next
        reconcile.
        """
        fresh = await self._tools.writer.fresh_workload(ObjectKey.of(workload))
        if fresh is None or fresh.uid != workload.uid or _names(fresh, booked):
            return fresh
        if fresh.deleting or fresh.terminal:
            return fresh
        note = f"no write that assigns {booked.claim} counts any more: {booked.assignment_id} is given back"
        try:
            return await self._tools.fence(fresh, note)
        except (Conflict, NotFound, OutcomeUnknown, ServerError) as error:
            raise ContendedError(workload.name) from error

    async def give_back(self, workload: Workload, booked: Assignment) -> Workload:
        """Release a seat that was booked just now, unless status names its claim; others' bookings stay.

        Returns the Workload as it was fenced, to go on with. Raises `ContendedError` where it is not what was
        decided on any more.
        """
        fresh = await self._fenced(workload, booked)
        if fresh is None or fresh.uid != workload.uid or not _names(fresh, booked):
            await self._release(workload, booked)
        if fresh is None or fresh.uid != workload.uid or fresh.deleting or fresh.terminal:
            raise ContendedError(workload.name)
        if assignment_of(fresh) != assignment_of(workload):
            raise ContendedError(workload.name)
        return fresh

    async def _release(self, workload: Workload, booked: Assignment) -> None:
        """Release it, behind the fence."""
        ref = SeatRef(workload.name, workload.uid, booked.assignment_id)
        await self._departure.release_shown_empty(workload, booked.claim, [ref])


def _names(workload: Workload, booked: Assignment) -> bool:
    return workload.status.claim_name == booked.claim
