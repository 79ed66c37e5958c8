"""Contract §5.1 and contract §5.2: teardown, in the order Pod, status, seat, ledger, claim.

A seat stays booked while its Pod may still run, because the process holds the GPU. A live read always proves
that the Pod is gone or has ended. Nothing is force-deleted.
"""

from __future__ import annotations

from contextlib import suppress

from controller.api.core import Pod
from controller.api.names import FINALIZER, pod_name
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.status import UNASSIGNED, PlacedUpdate, PlacementDetails, StatusUpdate
from controller.api.workload import Workload
from controller.cluster.caches import is_pod_of
from controller.cluster.object_writer import WorkloadGone
from controller.reconcile import reporting
from controller.reconcile.context import ContendedError, ReconcileContext, Scope, own_claim_names
from controller.runtime import logs
from informers.queue.runner import Result
from ledger.booking import Contended
from ledger.claim_names import is_claim_name, own_claim_name
from ledger.state import ClaimLedger, SeatRef

ORPHAN_FINALIZER = "orphan"
"""Set by the API server for a deletion that leaves the dependents."""

_log = logs.get_logger(__name__)


async def finish_deletion(context: ReconcileContext, scope: Scope) -> Result | None:
    """Finish a deletion: delete the Pods, release every seat of the UID, and remove the finalizer."""
    workload = scope.workload
    if not workload.deleting:
        return None
    if FINALIZER not in workload.metadata.finalizers:
        return Result()
    if ORPHAN_FINALIZER in workload.metadata.finalizers:
        # Garbage collection removes the owner references first, as the user asked.
        return context.retry
    pod = await _delete_pods(context, workload)
    if pod is not None:
        return await reporting.wait_for_pod_gone(context, workload, pod)
    await _release_all(context, workload)
    finalizers = tuple(f for f in workload.metadata.finalizers if f != FINALIZER)
    with suppress(WorkloadGone):
        await context.writer.set_finalizers(workload, finalizers)
    return Result()


async def finish_terminal(context: ReconcileContext, scope: Scope) -> Result | None:
    """Finish the interrupted withdrawal of a Workload that has ended."""
    if not scope.workload.terminal:
        return None
    context.local_state.settle(scope.workload.uid)
    await withdraw(context, scope.workload)
    return Result()


async def withdraw(context: ReconcileContext, workload: Workload) -> None:
    """Delete the Pods of a terminal Workload, and release its seats and claim.

    A finished Pod stays as a record. Raises `Conflict` if a running one may have finished in the meantime.
    """
    for pod in context.caches.pods_of(workload.uid):
        if not pod.finished and pod.metadata.deletion_timestamp is None:
            await context.writer.delete_pod(pod, on_version=True)
    if context.seats(workload):
        live = await context.live.pod_of(workload.name)
        if live is None or not is_pod_of(live, workload.uid) or live.finished:
            for claim, refs in context.seats(workload).items():
                await release(context, claim, refs)
        return
    claim = workload.status.claim_name
    ledger = context.ledger(claim) if is_claim_name(claim) else None
    if ledger is not None and not ledger.seats:
        # An earlier release was interrupted after the seat.
        await release(context, claim, [])


async def fail(context: ReconcileContext, workload: Workload, code: ReasonCode, detail: str) -> None:
    """Fail a worker that can never be placed, and then release what it holds."""
    text = sentence(code, detail)
    update = StatusUpdate(phase=Phase.FAILED, reason=text, condition=PlacedUpdate(False, code, text))
    await withdraw(context, await context.report(workload, update))


async def clear(
    context: ReconcileContext,
    workload: Workload,
    code: ReasonCode,
    detail: str,
    *,
    message: str | None = None,
    restarts: int | None = None,
) -> Workload:
    """Clear the assignment of a worker whose Pod is gone or has ended: first the status, then the seats.

    Releases the seats on the claim that the status names, or all if it names none. `message` is the
    condition's; the default is the status reason.
    """
    claim_name = workload.status.claim_name
    # Read before the write: a seat that appears later may be another process's, about to be committed.
    held = context.seats(workload)
    text = sentence(code, detail)
    update = StatusUpdate(
        phase=Phase.PENDING,
        reason=text,
        condition=PlacedUpdate(False, code, text if message is None else message),
        assignment=UNASSIGNED,
        details=PlacementDetails(),
        restarts=restarts,
    )
    cleared = await context.report(workload, update)
    for claim, refs in held.items():
        if not claim_name or claim == claim_name:
            await release_if_pod_gone(context, cleared, claim, refs)
    return cleared


async def release_if_pod_gone(
    context: ReconcileContext, workload: Workload, claim: str, refs: list[SeatRef]
) -> None:
    """Release exactly these seats if a live read shows that no Pod of the worker runs on the claim."""
    pod = await context.live.pod_of(workload.name)
    if pod is None or pod.finished or claim not in pod.claim_names:
        await release(context, claim, refs)


async def _delete_pods(context: ReconcileContext, workload: Workload) -> Pod | None:
    """Delete all Pods that this UID owns; returns one that still exists, `None` if a live read shows none.

    A Pod without its owner reference was orphaned (`--cascade=orphan`): it keeps running.
    """
    for pod in _owned_pods(context, workload):
        if pod.metadata.deletion_timestamp is None:
            await context.writer.delete_pod(pod)
    if left := _owned_pods(context, workload):
        # Always the same Pod, so that its age does not start again in each reconcile.
        return next((pod for pod in left if pod.metadata.name == pod_name(workload.name)), left[0])
    # The cache may lag behind a Pod that another process has just created.
    live = await context.live.pod_of(workload.name)
    return live if live is not None and live.owned_by(workload.uid) else None


def _owned_pods(context: ReconcileContext, workload: Workload) -> list[Pod]:
    return [pod for pod in context.caches.pods_of(workload.uid) if pod.owned_by(workload.uid)]


async def _release_all(context: ReconcileContext, workload: Workload) -> None:
    """Release every seat of a UID that gets no further Pod, under any assignment ID.

    Once the finalizer is removed, only the sweep handles this worker again, so the ledgers are read live. A
    seat booked by another process that crashed may be neither in the status nor in the cache. It is found on
    the claim named after this worker; elsewhere it is left to the sweep. A seat whose booking by this process
    got no answer is found on the claim of that booking. The seat of an orphaned Pod stays, and the sweep
    releases it once the Pod has ended.
    """
    # The live read that showed no owned Pod has updated the cache.
    orphaned = [pod for pod in context.caches.pods_of(workload.uid) if not pod.finished]
    in_use = {claim for pod in orphaned for claim in pod.claim_names}
    for pod in orphaned:
        _log.warning("Left an orphaned Pod on its seat", workload=workload, pod=pod.metadata.name)
    held = context.seats(workload)
    for claim in context.local_state.pending_bookings.unanswered.get(workload.uid, ()):
        held.setdefault(claim, [])
    if is_claim_name(workload.status.claim_name):
        held.setdefault(workload.status.claim_name, [])
    if held.keys().isdisjoint(own_claim_names(workload)):
        held[own_claim_name(workload.name, workload.uid)] = []
    for claim, refs in sorted(held.items()):
        if claim in in_use:
            continue
        ledger = await release(context, claim, refs) if refs else await context.live.ledger_of(claim)
        if ledger is None:
            continue
        # Another process may have adopted a seat under a new assignment ID.
        left = [seat.ref for seat in ledger.seats if seat.workload_uid == workload.uid]
        if left or not ledger.seats:
            await release(context, claim, left)


async def release(context: ReconcileContext, claim: str, refs: list[SeatRef]) -> ClaimLedger | None:
    """Release exactly these seats, or retire an empty ledger if there are none; returns the remaining ledger.

    The caller has proved that no Pod of these seats is on the claim.
    """
    released = await context.book.release(claim, refs)
    if isinstance(released, Contended):
        raise ContendedError(claim)
    return released.ledger
