"""Contract §5.8: fall back to sharing.

kube-scheduler is the capacity probe: its verdict `Unschedulable` on the Pod of an unallocated claim is the
only thing that counts; there is no timer.
"""

from __future__ import annotations

from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.status import PlacedUpdate, StatusUpdate, assignment_of
from controller.api.workload import Workload
from controller.reconcile.commit import Commit
from controller.reconcile.context import ReconcileContext, own_claim_names
from controller.reconcile.seat_booker import ContendedError, SeatBooker
from controller.reconcile.teardown import Departure
from controller.reconcile.worker_pods import Creation
from informers.errors import Conflict
from ledger.state import SeatRef
from placement.types import PlacementRequest


def refused_by_scheduler(pod: Pod) -> bool:
    """Whether kube-scheduler's last word on this unbound Pod is that it fits nowhere."""
    condition = pod.scheduled
    return (
        not pod.bound
        and not pod.status.nominated_node_name
        and condition is not None
        and (condition.status, condition.reason) == ("False", "Unschedulable")
    )


class Fallback:
    """Moves a worker from a claim that cannot be allocated to a seat, or back to a claim of its own."""

    def __init__(
        self, context: ReconcileContext, seats: SeatBooker, commit: Commit, departure: Departure
    ) -> None:
        self._context = context
        self._seats = seats
        self._commit = commit
        self._departure = departure

    async def to_a_seat(self, workload: Workload, request: PlacementRequest, pod: Pod) -> Workload | None:
        """Book a seat elsewhere, delete the refused Pod on its version, commit.

        Returns the Workload with its new assignment (its Pod is to be created), or `None` if no ledger
        accepts it. Raises `Conflict` where something happened to the Pod meanwhile: the new seat was given
        back, and if the Pod was bound it keeps its claim.
        """
        if not request.shareable:
            return None
        booked = await self._seats.take(workload, request)
        if booked is None:
            return None
        try:
            gone = await self._context.writer.delete_pod(pod, on_version=True)
        except Conflict:
            await self._commit.give_back(workload, booked)
            raise
        if not gone:
            # Somebody's finalizer holds it: until it is gone the worker is on its old claim.
            await self._commit.give_back(workload, booked)
            raise ContendedError(workload.name)
        reason = sentence(ReasonCode.SHARED_ON_UNSCHEDULABLE, booked.claim)
        outcome = StatusUpdate(
            phase=Phase.PLACING,
            reason=reason,
            condition=PlacedUpdate(False, ReasonCode.UNSCHEDULABLE, reason),
            assignment=booked,
        )
        return await self._commit.assign(workload, outcome, booked)

    async def retire_outgrown(
        self, workload: Workload, request: PlacementRequest, claim: ResourceClaim, pod: Pod
    ) -> Workload | None:
        """An unallocated own claim lacks a shape that the fleet offers by now: it is cut anew.

        Returns the Workload without an assignment, or `None` where the claim lists every shape.
        """
        listed = {shape.name for r in claim.spec.devices.requests for shape in r.first_available}
        if all(tier.name in listed for tier in self._context.fleet.device_shapes(request)):
            return None
        detail = f"{claim.metadata.name} lacks a device size that came since"
        return await self._leave(workload, pod, detail)

    async def leave_joined(self, workload: Workload, claim: ResourceClaim, pod: Pod) -> Workload | None:
        """A joined claim lost its allocation and nobody else takes the worker: it leaves, to cut its own.

        Returns the Workload without an assignment, or `None` if the claim is its own: then it waits there.
        """
        if claim.metadata.name in own_claim_names(workload):
            return None
        return await self._leave(workload, pod, f"{claim.metadata.name} lost its device")

    async def _leave(self, workload: Workload, pod: Pod, detail: str) -> Workload:
        """Order down: the Pod on its version, then status, then the seat."""
        if not await self._context.writer.delete_pod(pod, on_version=True):
            raise ContendedError(workload.name)
        return await self._departure.clear(workload, ReasonCode.WAITING_FOR_CAPACITY, detail)

    async def release_old(
        self, workload: Workload, claim: str, refs: list[SeatRef], creation: Creation
    ) -> None:
        """Give back what was held on the claim that was left, once the new Pod has the worker's name.

        Where it could not be created, the Pod that is there may be a late one of another process, on the old
        claim: a fresh read must show that it is not.
        """
        if assignment_of(workload).claim == claim:
            return
        if creation is Creation.CREATED:
            await self._departure.release_refs(claim, refs)
        else:
            await self._departure.release_shown_empty(workload, claim, refs)
