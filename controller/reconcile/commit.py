"""The commit of an assignment: the conditional status write between a booked seat and the Pod.

It is tried once, on the version that was decided from. A conflict is never answered by writing again on a
newer version: another process may have written that version to fence this very seat before it releases it.
The commit is *lost* when a fresh read shows that status does not name this claim; the provisional seat is
then given back, by exactly its assignment ID, and the worker is decided on anew (contract §4).

A seat may be another process's, too: adopting one gives it a new assignment ID, and the process that had
booked it may be about to commit. So nothing is given back before a status write has fenced such commits.
"""

from __future__ import annotations

from controller.api.status import Assignment, StatusUpdate, assignment_of
from controller.api.workload import Workload
from controller.reconcile.context import ReconcileContext
from controller.reconcile.seat_booker import ContendedError
from controller.reconcile.teardown import Departure
from informers.errors import Conflict, NotFound, OutcomeUnknown, ServerError
from ledger.state import SeatRef


class Commit:
    """Commits assignments and gives back seats whose commit is lost."""

    def __init__(self, context: ReconcileContext, departure: Departure) -> None:
        self._context = context
        self._departure = departure

    async def assign(self, workload: Workload, outcome: StatusUpdate, booked: Assignment) -> Workload:
        """Write the assignment into the status of the Workload that was decided on; returns it as written.

        Raises `ContendedError` where the commit did not come about as decided: the worker looks again.
        """
        try:
            return await self._context.report(workload, outcome, force=True)
        except (Conflict, NotFound, OutcomeUnknown, ServerError) as error:
            cause: Exception = error
        live = await self._fenced(workload, booked)
        if live is None or live.uid != workload.uid or not _names(live, booked):
            await self._release(workload, booked)
            raise ContendedError(workload.name) from cause
        if assignment_of(live) != booked or live.deleting or live.terminal:
            # The claim is named, so the seat is not ours to give back: repair or departure takes over.
            raise ContendedError(workload.name) from cause
        return live

    async def _fenced(self, workload: Workload, booked: Assignment) -> Workload | None:
        """The Workload in a version that no write which assigns this seat can change any more.

        A read that does not show such a write proves nothing: ours may still land if it was not answered,
        and another process's may be on its way. So another write goes on top, which they then conflict with.
        Raises `ContendedError` where even that stays open: the seat is left to be adopted by the next
        reconcile.
        """
        live = await self._context.live.workload(workload.name)
        if live is None or live.uid != workload.uid or _names(live, booked):
            return live
        if live.deleting or live.terminal:
            return live
        note = f"no write that assigns {booked.claim} counts any more: {booked.assignment_id} is given back"
        try:
            return await self._context.fencing_write(live, note)
        except (Conflict, NotFound, OutcomeUnknown, ServerError) as error:
            raise ContendedError(workload.name) from error

    async def give_back(self, workload: Workload, booked: Assignment) -> Workload:
        """Release a seat that was booked just now, unless status names its claim; others' bookings stay.

        Returns the Workload as it was fenced, to go on with. Raises `ContendedError` where it is not what was
        decided on any more.
        """
        live = await self._fenced(workload, booked)
        if live is None or live.uid != workload.uid or not _names(live, booked):
            await self._release(workload, booked)
        if live is None or live.uid != workload.uid or live.deleting or live.terminal:
            raise ContendedError(workload.name)
        if assignment_of(live) != assignment_of(workload):
            raise ContendedError(workload.name)
        return live

    async def _release(self, workload: Workload, booked: Assignment) -> None:
        """Release it, behind the fence."""
        ref = SeatRef(workload.name, workload.uid, booked.assignment_id)
        await self._departure.release_shown_empty(workload, booked.claim, [ref])


def _names(workload: Workload, booked: Assignment) -> bool:
    return workload.status.claim_name == booked.claim
