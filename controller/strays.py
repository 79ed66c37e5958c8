"""Seats that their own Workload does not name in its status: its repair has to look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from controller.status import Assignment, assignment_of
from controller.workload import Workload
from ledger.state import Seat


def holders_of_unnamed(
    claim: str, seats: Iterable[Seat], find: Callable[[str], Workload | None]
) -> Iterator[Workload]:
    """The Workloads that `seats` on `claim` are booked for and whose status names another seat or none.

    `find` gives the Workload of a name, if there is one; one of another UID than the seat's is left out.
    """
    for seat in seats:
        workload = find(seat.workload)
        if workload is None or workload.uid != seat.workload_uid:
            continue
        if assignment_of(workload) != Assignment(claim, seat.assignment_id):
            yield workload
