"""Contract §5.1 and §5.2: teardown, in the order Pod gone, status, seat, ledger, claim.

A seat stays booked while its Pod may still run, since the process holds the GPU; that the Pod is gone or has
ended is always shown by a read past the cache. Nothing is ever force-deleted.
"""

from __future__ import annotations

from controller.api.core import Pod
from controller.api.names import FINALIZER, pod_name
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.status import UNASSIGNED, PlacedUpdate, PlacementDetails, StatusUpdate
from controller.api.workload import Workload
from controller.cluster.object_writer import WorkloadGone
from controller.reconcile.context import ReconcileContext, own_claim_names
from controller.reconcile.seat_booker import ContendedError
from ledger.book import Contended
from ledger.names import is_claim_name, own_claim_name
from ledger.state import ClaimLedger, SeatRef


class Departure:
    """Ends workers, and releases what they held."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def delete(self, workload: Workload) -> Pod | None:
        """The Workload is being deleted: end its Pods, release every seat of this UID, drop the finalizer.

        Returns the Pod that it waits for, if one is not gone yet.
        """
        if FINALIZER not in workload.metadata.finalizers:
            return None
        ending = await self._ending_pod(workload)
        if ending is not None:
            return ending
        await self._release_all(workload)
        kept = tuple(f for f in workload.metadata.finalizers if f != FINALIZER)
        try:
            await self._context.writer.set_finalizers(workload, kept)
        except WorkloadGone:
            return None
        return None

    async def withdraw(self, workload: Workload) -> None:
        """The Workload has ended: whatever an interrupted withdrawal left is finished, each time.

        A Pod that has ended stays, as the record of what happened; one that has not is deleted, on the
        version that shows that. Raises `Conflict` where it may have ended meanwhile.
        """
        running = [pod for pod in self._pods(workload) if not pod.finished]
        for pod in running:
            if pod.metadata.deletion_timestamp is None:
                await self._context.writer.delete_pod(pod, on_version=True)
        if self._context.seats(workload):
            await self.release_seats(workload)
        else:
            await self._retire_left_empty(workload.status.claim_name)

    async def _retire_left_empty(self, claim: str) -> None:
        """Finish a release that got as far as the seat: a ledger without seats goes, and then its claim."""
        ledger = self._context.ledger(claim) if is_claim_name(claim) else None
        if ledger is not None and not ledger.seats:
            await self._release_from(claim, [])

    async def fail(self, workload: Workload, code: ReasonCode, detail: str) -> None:
        """The worker can never be placed: terminal status first, then what it held."""
        text = sentence(code, detail)
        outcome = StatusUpdate(phase=Phase.FAILED, reason=text, condition=PlacedUpdate(False, code, text))
        await self.withdraw(await self._context.report(workload, outcome))

    async def release_seats(self, workload: Workload) -> None:
        """Release every seat of this UID, once a fresh read shows that no Pod of it runs on."""
        pod = await self._context.live.pod_of(workload.name)
        if pod is not None and pod.owned_by(workload.uid) and not pod.finished:
            return
        for claim, refs in self._held(workload).items():
            await self._release_from(claim, refs)

    async def reject(self, workload: Workload, message: str) -> Workload:
        """The API server refuses a worker for now (quota, Pod security, webhook): it holds on to nothing."""
        return await self.clear(workload, ReasonCode.POD_REJECTED, message, message=message)

    async def clear(
        self, workload: Workload, code: ReasonCode, detail: str, *, message: str | None = None
    ) -> Workload:
        """Take the assignment of a worker whose Pod is gone or has ended: the status, then what it held.

        Released are the bookings on the claim that the status names, all of them where it names none.
        `message` is the condition's, the reason's sentence unless given.
        """
        named = workload.status.claim_name
        held = self._held(workload)
        text = sentence(code, detail)
        outcome = StatusUpdate(
            phase=Phase.PENDING,
            reason=text,
            condition=PlacedUpdate(False, code, text if message is None else message),
            assignment=UNASSIGNED,
            details=PlacementDetails(),
        )
        cleared = await self._context.report(workload, outcome)
        for claim, refs in held.items():
            if not named or claim == named:
                await self.release_shown_empty(cleared, claim, refs)
        return cleared

    def held_on(self, workload: Workload, claim: str) -> list[SeatRef]:
        """The bookings of this UID on one claim, to be released after the status write that clears them.

        Asked before that write: one that is seen only after it may be another process's, on its way to a
        commit.
        """
        return self._held(workload).get(claim, [])

    def _held(self, workload: Workload) -> dict[str, list[SeatRef]]:
        """The bookings of this UID that the cache shows, by claim, in the order of names."""
        held: dict[str, list[SeatRef]] = {}
        for claim, seat in self._context.seats(workload):
            held.setdefault(claim, []).append(seat.ref)
        return held

    async def release_shown_empty(self, workload: Workload, claim: str, refs: list[SeatRef]) -> None:
        """Release bookings on one claim, once a fresh read shows that the worker's Pod is not there."""
        pod = await self._context.live.pod_of(workload.name)
        if pod is None or pod.finished or claim not in pod.claim_names:
            await self.release_refs(claim, refs)

    def _pods(self, workload: Workload) -> tuple[Pod, ...]:
        return self._context.caches.pods_of(workload.uid)

    async def _ending_pod(self, workload: Workload) -> Pod | None:
        """A Pod of this UID that is left; all are asked to end. `None`: verifiably gone."""
        for pod in self._pods(workload):
            if pod.metadata.deletion_timestamp is None:
                await self._context.writer.delete_pod(pod)
        if left := self._pods(workload):
            # One and the same while it is there, or its age would begin anew at each look.
            return next((pod for pod in left if pod.metadata.name == pod_name(workload.name)), left[0])
        # The cache may lag behind a Pod that another process created a moment ago.
        live = await self._context.live.pod_of(workload.name)
        return live if live is not None and live.owned_by(workload.uid) else None

    async def _release_all(self, workload: Workload) -> None:
        """Release every seat of a UID that gets no Pod any more, under whatever assignment it stands.

        Once the finalizer is gone nobody comes back for this worker but the sweep, so the ledgers answer
        rather than the cache. What another process booked before it died, and neither the status nor the
        cache shows, is found on the claim that is named for this worker; elsewhere it is left to the sweep.
        """
        held = self._held(workload)
        if is_claim_name(workload.status.claim_name):
            held.setdefault(workload.status.claim_name, [])
        if held.keys().isdisjoint(own_claim_names(workload)):
            held[own_claim_name(workload.name, workload.uid)] = []
        for claim, refs in sorted(held.items()):
            ledger = (
                await self._release_from(claim, refs) if refs else await self._context.live.ledger_of(claim)
            )
            await self._release_left(workload, claim, ledger)

    async def _release_left(self, workload: Workload, claim: str, ledger: ClaimLedger | None) -> None:
        """Release what a ledger still has of this worker: another process may have adopted its seat."""
        if ledger is None:
            return
        refs = [seat.ref for seat in ledger.seats if seat.workload_uid == workload.uid]
        if refs or not ledger.seats:
            await self._release_from(claim, refs)

    async def release_refs(self, claim: str, refs: list[SeatRef]) -> None:
        """Release exactly these bookings; the caller has shown that their Pods are not there."""
        if refs:
            await self._release_from(claim, refs)

    async def _release_from(self, claim: str, refs: list[SeatRef]) -> ClaimLedger | None:
        """Release these bookings; returns the ledger as it was left, if there is one still."""
        released = await self._context.book.release(claim, refs)
        if isinstance(released, Contended):
            raise ContendedError(claim)
        return released.ledger
