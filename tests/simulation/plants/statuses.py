"""Bugs planted in the order of steps: seat, status, Pod on setup; Pod, status, seat on teardown."""

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
from controller.reconcile import commit, completion, context, placement_timeout, seat_choice, sweep, teardown
from controller.reconcile.completion import PodEnd
from controller.reconcile.context import ContendedError, ReconcileContext, Scope
from informers.errors import ApiError
from informers.queue.runner import Result
from ledger.api import LedgerError
from ledger.booking import Booked, SeatBook
from ledger.state import SeatRef
from placement.quantity import whole_gib
from placement.types import PlacementRequest, SeatOffer
from tests.simulation.plants.plant import replaced


def status_before_seat() -> AbstractContextManager[None]:
    """The status names the claim before its ledger has accepted the worker."""

    async def book_offer(
        context: ReconcileContext, workload: Workload, request: PlacementRequest, offer: SeatOffer
    ) -> Assignment | None:
        assignment = Assignment(offer.claim, context.book._new_assignment_id())
        update = StatusUpdate(
            phase=Phase.PLACING,
            reason=context.booked_reason(workload, offer.claim),
            assignment=assignment,
            details=PlacementDetails(memory_per_device=whole_gib(request.memory_bytes)),
        )
        try:
            named = await context.report(workload, update, force=True)
            seat_request = context.requests.seat_request(
                named,
                claim_owner_uid=seat_choice.claim_owner_uid(context, offer.claim),
                recorded=assignment.assignment_id,
            )
            recheck = seat_choice.recheck_of(context, request, offer.claim)
            answer = await context.book.join(offer.claim, seat_request, recheck=recheck)
        finally:
            seat_choice.end_booking(context, request)
        if not isinstance(answer, Booked):
            raise ContendedError(offer.claim)
        return assignment

    return replaced(seat_choice, "book_offer", book_offer)


def lost_answer_taken_as_failure() -> AbstractContextManager[None]:
    """A status write without an answer counts as not written: the seat is released at once."""

    async def commit_unfenced(
        context: ReconcileContext, workload: Workload, update: StatusUpdate, booked: Assignment
    ) -> Workload:
        try:
            return await context.report(workload, update, force=True)
        except ApiError as error:
            await commit.release_booked(context, workload, booked)
            raise ContendedError(workload.name) from error

    return replaced(commit, "commit", commit_unfenced)


def status_written_without_version() -> AbstractContextManager[None]:
    """The patch of a status lacks the version that the decision was based on."""

    def patch(
        workload: Workload, update: StatusUpdate, now: datetime, *, force: bool = False
    ) -> dict[str, Any] | None:
        decided = status_patch(workload, update, now, force=force)
        return decided and {"metadata": {"uid": workload.metadata.uid}, "status": decided["status"]}

    return replaced(context, "status_patch", patch)


def timeout_forgets_the_pod() -> AbstractContextManager[None]:
    """The placement timeout fails the Workload without deleting its Pod first."""

    async def expire(context: ReconcileContext, workload: Workload, _pod: Pod | None) -> None:
        reason = sentence(ReasonCode.PLACEMENT_TIMEOUT, "waited too long")
        condition = PlacedUpdate(False, ReasonCode.UNSCHEDULABLE, reason)
        update = StatusUpdate(phase=Phase.FAILED, reason=reason, condition=condition)
        await teardown.withdraw(context, await context.report(workload, update))

    return replaced(placement_timeout, "expire", expire)


def finalizer_dropped_first() -> AbstractContextManager[None]:
    """The finalizer is dropped before the Pod and the seats are gone."""

    async def finish_deletion(context: ReconcileContext, scope: Scope) -> Result | None:
        workload = scope.workload
        if not workload.deleting:
            return None
        if FINALIZER in workload.metadata.finalizers:
            kept = tuple(f for f in workload.metadata.finalizers if f != FINALIZER)
            await context.writer.set_finalizers(workload, kept)
            if await teardown._delete_pods(context, workload) is None:
                await teardown._release_all(context, workload)
        return Result()

    return replaced(teardown, "finish_deletion", finish_deletion)


@contextmanager
def seat_freed_while_pod_ends() -> Iterator[None]:
    """A Pod being deleted counts as gone, both for teardown and for the release that checks again."""
    delete_pods = teardown._delete_pods

    async def delete_without_waiting(context: ReconcileContext, workload: Workload) -> Pod | None:
        left = await delete_pods(context, workload)
        return None if left is None or left.metadata.deletion_timestamp is not None else left

    def has_live_pod(_book: SeatBook, _claim: str, _leaving: Collection[SeatRef]) -> bool:
        return False

    with (
        replaced(teardown, "_delete_pods", delete_without_waiting),
        replaced(SeatBook, "_has_live_pod", has_live_pod),
    ):
        yield


def lost_pod_taken_as_outcome() -> AbstractContextManager[None]:
    """A Pod in a final phase has ended, even if it was removed."""

    inner = completion.end_of

    def end_of(pod: Pod, worker_container: str) -> PodEnd | None:
        end = inner(pod, worker_container)
        return PodEnd.FAILED if end is PodEnd.LOST else end

    return replaced(completion, "end_of", end_of)


def swept_at_first_sight() -> AbstractContextManager[None]:
    """The sweep releases what looks orphaned in the cache, in the same step."""

    async def step(self: sweep.Sweep) -> float:
        for orphan in tuple(self._orphans()):
            with suppress(ApiError, LedgerError):
                await _release_as_shown(self, orphan)
        self._activate_unrecorded()
        return sweep.INTERVAL_SECONDS

    return replaced(sweep.Sweep, "step", step)


async def _release_as_shown(swept: sweep.Sweep, orphan: sweep.Orphan) -> None:
    context = swept._context
    claim, target = orphan.claim, orphan.target
    ledger = context.ledger(claim)
    if isinstance(target, SeatRef):
        await context.book.release(claim, [target])
    elif orphan.kind == "claim":
        await context.ledgers.delete_claim(claim, target)
    elif ledger is not None:
        await context.book.release(claim, [seat.ref for seat in ledger.seats])
