"""Contract §5.7: abandon an allocated claim that keeps refusing the worker's Pod.

The allocation pins the Pod to a node where it does not fit (full host, cordon, taint), and kube-scheduler
never moves it. After two minutes of refusal, or at once where the claim has moved to a place that can never
hold this worker, the seat is given up and the worker is placed anew.
"""

from __future__ import annotations

from datetime import timedelta

from controller.api import convert
from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.reasons import ReasonCode, sentence
from controller.api.workload import Workload
from controller.reconcile.ages import Milestone
from controller.reconcile.context import ReconcileContext
from controller.reconcile.seat_booker import ContendedError
from controller.reconcile.teardown import Departure
from placement.types import JoinCheck, PlacementRequest

PATIENCE = timedelta(minutes=2)
PATIENCE_WHILE_BINDING = timedelta(seconds=600)
"""Where the allocation carries `bindingConditions`: kube-scheduler itself waits that long for the driver."""

HOPELESS = frozenset({JoinCheck.ROLE_REFUSED, JoinCheck.DEVICE_TOO_SMALL})
"""What no waiting changes, unlike a taint: seats are checked again where a claim was allocated elsewhere."""


class Abandon:
    """Gives up claims that refuse their worker."""

    def __init__(self, context: ReconcileContext, departure: Departure) -> None:
        self._context = context
        self._departure = departure

    def remaining_seconds(
        self, workload: Workload, request: PlacementRequest | None, claim: ResourceClaim, pod: Pod
    ) -> float:
        """How long the claim may go on refusing this Pod; 0 or less: abandon it now."""
        if request is not None and self._context.fleet.check(request, claim.metadata.name) in HOPELESS:
            return 0.0
        binding = claim.status.allocation is not None and any(
            result.binding_conditions for result in claim.status.allocation.devices.results
        )
        patience = PATIENCE_WHILE_BINDING if binding else PATIENCE
        return (patience - self._refused_for(workload, claim, pod)).total_seconds()

    def _refused_for(self, workload: Workload, claim: ResourceClaim, pod: Pod) -> timedelta:
        """Since the latest of the verdict, the Pod's creation and the allocation.

        A Pod that waited for minutes on its own claim carries its old verdict for a moment after the claim
        was allocated.
        """
        memory = self._context.local_state
        since = (
            memory.allocations.since_seen(claim),
            memory.ages.since(Milestone.POD_CREATED, workload, pod),
            memory.ages.since(Milestone.POD_JUDGED, workload, pod),
        )
        return min(age for age in since if age is not None)

    async def abandon(self, workload: Workload, claim: ResourceClaim, pod: Pod) -> None:
        """Pod, then status, then seat; the claim is not offered to this worker again for a while.

        Raises `Conflict` where something happened to the Pod meanwhile: it may be bound.
        """
        if not await self._context.writer.delete_pod(pod, on_version=True):
            # Somebody's finalizer holds it: on that claim it still is.
            raise ContendedError(workload.name)
        condition = pod.scheduled
        words = f"; kube-scheduler: {condition.message}" if condition is not None else ""
        cleared = await self.give_up(workload, claim, "it kept refusing the Pod", words)
        self._context.requeue(cleared)

    async def give_up(self, workload: Workload, claim: ResourceClaim, why: str, words: str = "") -> Workload:
        """Status, then seat, of a worker whose Pod is gone from the claim or has ended."""
        self._context.local_state.refused.add(workload.uid, claim)
        where = convert.claim_node(claim) or "no node"
        detail = f"{claim.metadata.name} on {where}: {why}"
        message = sentence(ReasonCode.REPLACING_WEDGED_CLAIM, detail) + words
        return await self._departure.clear(
            workload, ReasonCode.REPLACING_WEDGED_CLAIM, detail, message=message
        )
