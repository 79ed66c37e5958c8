"""The commit of an assignment: the conditional status write between the booked seat and the Pod.

A commit is attempted once, on the version that the decision was based on. After a conflict it is not repeated
on a newer version: another process may have written that version to fence this very seat before releasing it.
A commit is *lost* if a live read shows that the status does not name this claim. The seat is then released by
its assignment ID, and the placement is decided again (contract §4).

The seat may have been booked by another process that is about to commit it: adoption gives it a new
assignment ID. So no seat is released before a status write has fenced such commits.
"""

from __future__ import annotations

from controller.api.status import Assignment, StatusUpdate, assignment_of
from controller.api.workload import Workload
from controller.reconcile import teardown
from controller.reconcile.context import ContendedError, ReconcileContext
from informers.errors import Conflict, NotFound, OutcomeUnknown, ServerError
from ledger.state import SeatRef


async def commit(
    context: ReconcileContext, workload: Workload, update: StatusUpdate, booked: Assignment
) -> Workload:
    """Write the assignment into the status; returns the Workload as written.

    Raises `ContendedError` if the assignment was not committed as decided.
    """
    try:
        return await context.report(workload, update, force=True)
    except (Conflict, NotFound, OutcomeUnknown, ServerError) as error:
        cause: Exception = error
    live = await _fence(context, workload, booked)
    if live is None or live.status.claim_name != booked.claim:
        await release_booked(context, workload, booked)
        raise ContendedError(workload.name) from cause
    if assignment_of(live) != booked or live.deleting or live.terminal:
        # The status names the claim, so repair or teardown handles the seat.
        raise ContendedError(workload.name) from cause
    return live


async def undo_booking(context: ReconcileContext, workload: Workload, booked: Assignment) -> Workload:
    """Release a seat that was just booked, unless the status names its claim; returns the fenced Workload.

    Raises `ContendedError` if the Workload is no longer what the decision was based on.
    """
    live = await _fence(context, workload, booked)
    if live is None or live.status.claim_name != booked.claim:
        await release_booked(context, workload, booked)
    if live is None or live.deleting or live.terminal or assignment_of(live) != assignment_of(workload):
        raise ContendedError(workload.name)
    return live


async def _fence(context: ReconcileContext, workload: Workload, booked: Assignment) -> Workload | None:
    """Return the Workload at a version at which no earlier write can still assign this seat.

    A live read without the assignment proves nothing: an unanswered write of ours, or a write of another
    process, may still be in flight. A further write makes such writes conflict. Raises `ContendedError` if
    that write fails too; the next reconcile then adopts the seat.
    """
    live = await context.read_live(workload)
    if live is None or live.status.claim_name == booked.claim or live.deleting or live.terminal:
        return live
    note = f"no write that assigns {booked.claim} counts any more: {booked.assignment_id} is given back"
    try:
        return await context.fencing_write(live, note)
    except (Conflict, NotFound, OutcomeUnknown, ServerError) as error:
        raise ContendedError(workload.name) from error


async def release_booked(context: ReconcileContext, workload: Workload, booked: Assignment) -> None:
    """Release a seat whose commits are fenced."""
    ref = SeatRef(workload.name, workload.uid, booked.assignment_id)
    await teardown.release_if_pod_gone(context, workload, booked.claim, [ref])
