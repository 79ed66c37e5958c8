"""Plants in the order of steps: seat, status and Pod up; Pod, status and seat down."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from typing import Any

from controller.api.core import Pod
from controller.api.names import FINALIZER
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.status import Assignment, PlacedUpdate, PlacementDetails, StatusUpdate, status_patch
from controller.api.workload import Workload
from controller.reconcile import completion, context, sweep
from controller.reconcile.commit import Commit
from controller.reconcile.placement_timeout import TimeLimit
from controller.reconcile.seat_booker import ContendedError, SeatBooker
from controller.reconcile.teardown import Departure
from informers.errors import ApiError
from ledger.api import LedgerError
from ledger.book import Booked, SeatBook
from ledger.state import SeatRef
from placement.quantity import whole_gib
from placement.types import PlacementRequest, SeatOffer
from tests.simulation.plants.plant import replaced


def status_before_seat() -> AbstractContextManager[None]:
    """The status names the claim before its ledger has accepted the worker."""

    async def book(
        seats: SeatBooker, workload: Workload, request: PlacementRequest, offer: SeatOffer
    ) -> Assignment | None:
        held = seats._context
        assignment = Assignment(offer.claim, held.book._new_assignment_id())
        outcome = StatusUpdate(
            phase=Phase.PLACING,
            reason=held.booked_reason(workload, offer.claim),
            assignment=assignment,
            details=PlacementDetails(memory_per_device=whole_gib(request.memory_bytes)),
        )
        try:
            named = await held.report(workload, outcome, force=True)
            booking = held.requests.seat_request(
                named, claim_owner_uid=seats._claim_owner(offer.claim), recorded=assignment.assignment_id
            )
            answer = await held.book.join(offer.claim, booking, recheck=seats._recheck(request, offer))
        finally:
            _, reservation = seats._under_way.pop(request.worker_uid)
            held.fleet.cancel_reservation(offer.claim, reservation.assignment_id)
        if not isinstance(answer, Booked):
            raise ContendedError(offer.claim)
        return assignment

    return replaced(SeatBooker, "_book", book)


def lost_answer_taken_for_failure() -> AbstractContextManager[None]:
    """A status write without an answer counts as not written: the seat is given back at once."""

    async def assign(
        commit: Commit, workload: Workload, outcome: StatusUpdate, booked: Assignment
    ) -> Workload:
        try:
            return await commit._context.report(workload, outcome, force=True)
        except ApiError as error:
            await commit._release(workload, booked)
            raise ContendedError(workload.name) from error

    return replaced(Commit, "assign", assign)


def status_written_without_version() -> AbstractContextManager[None]:
    """The patch of a status lacks the version that it was decided from."""

    def patch(
        workload: Workload, outcome: StatusUpdate, now: datetime, *, force: bool = False
    ) -> dict[str, Any] | None:
        decided = status_patch(workload, outcome, now, force=force)
        return decided and {"metadata": {"uid": workload.metadata.uid}, "status": decided["status"]}

    return replaced(context, "status_patch", patch)


def timeout_forgets_the_pod() -> AbstractContextManager[None]:
    """A time-out fails the Workload and leaves its Pod to whoever comes next."""

    async def expire(limit: TimeLimit, workload: Workload, _pod: Pod | None) -> None:
        reason = sentence(ReasonCode.PLACEMENT_TIMEOUT, "waited too long")
        verdict = PlacedUpdate(False, ReasonCode.UNSCHEDULABLE, reason)
        failed = await limit._context.report(
            workload, StatusUpdate(phase=Phase.FAILED, reason=reason, condition=verdict)
        )
        await limit._departure.withdraw(failed)

    return replaced(TimeLimit, "expire", expire)


def finalizer_dropped_first() -> AbstractContextManager[None]:
    """The finalizer goes before what it protects."""

    async def delete(departure: Departure, workload: Workload) -> Pod | None:
        if FINALIZER not in workload.metadata.finalizers:
            return None
        kept = tuple(f for f in workload.metadata.finalizers if f != FINALIZER)
        await departure._context.writer.set_finalizers(workload, kept)
        ending = await departure._ending_pod(workload)
        if ending is None:
            await departure._release_all(workload)
        return None

    return replaced(Departure, "delete", delete)


@contextmanager
def seat_freed_while_pod_ends() -> Iterator[None]:
    """A Pod that was asked to end counts as gone, for the departure and for the release that asks again."""
    ending_pod = Departure._ending_pod

    async def ending(departure: Departure, workload: Workload) -> Pod | None:
        left = await ending_pod(departure, workload)
        return None if left is None or left.metadata.deletion_timestamp is not None else left

    def has_come_back(_book: SeatBook, _claim: str, _leaving: Collection[SeatRef]) -> bool:
        return False

    with (
        replaced(Departure, "_ending_pod", ending),
        replaced(SeatBook, "_has_come_back", has_come_back),
    ):
        yield


def lost_pod_taken_for_outcome() -> AbstractContextManager[None]:
    """A Pod in a final phase has ended, also where it was taken away."""

    def is_lost(_pod: Pod) -> bool:
        return False

    return replaced(completion, "is_lost", is_lost)


def swept_at_first_sight() -> AbstractContextManager[None]:
    """The sweep releases what the cache shows as orphaned, in the step that sees it."""

    async def step(self: sweep.Sweep) -> float:
        for orphan in tuple(self._orphans()):
            with suppress(ApiError, LedgerError):
                await _release_as_shown(self, orphan)
        self._activate_unrecorded()
        return sweep.INTERVAL_SECONDS

    return replaced(sweep.Sweep, "step", step)


async def _release_as_shown(swept: sweep.Sweep, orphan: sweep.Orphan) -> None:
    held = swept._context
    match orphan:
        case sweep.OrphanSeat(claim, ref):
            await held.book.release(claim, [ref])
        case sweep.OrphanLedger(claim, _):
            shown = held.ledger(claim)
            if shown is not None:
                await held.book.release(claim, [seat.ref for seat in shown.seats])
        case sweep.OrphanClaim(claim, uid):
            await held.ledgers.delete_claim(claim, uid)
