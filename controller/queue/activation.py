"""Who may take what has become free: the oldest workers that fit, found without waking the others.

Everybody who waits is considered, and nobody is looked at in vain: workers of one lane ask for the same, so
once the first of them finds nothing, the others find nothing either. What a worker would take is reserved
while the next ones are considered, and given back at the end: a what-if on the fleet in one step of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from heapq import heapify, heappop, heappush

from controller.api.requests import PlacementRequests
from controller.api.workload import Workload
from controller.cluster.caches import Caches
from controller.queue.scheduling_queue import SchedulingQueue
from informers.api import ObjectKey
from placement.fleet import Fleet
from placement.types import Amounts, PlacementRequest, Role, SeatInfo, Toleration

EquivalenceClass = tuple[Role, int, Amounts, tuple[Toleration, ...]]
"""What a worker that shares asks for, as far as the choice of a seat depends on it."""

_ANYBODY = "anybody of the lane"
"""In place of a UID: a worker that is on no claim and that no claim has refused."""


def equivalence_class_of(request: PlacementRequest | None) -> EquivalenceClass | None:
    """The lane that a worker waits in; `None` for those that can take no seat."""
    if request is None or not request.shareable:
        return None
    return (request.role, request.memory_bytes, request.host, request.tolerations)


def reservation_of(request: PlacementRequest) -> SeatInfo:
    """The hold on a seat that a worker has chosen and not booked yet."""
    return SeatInfo(
        worker=request.worker,
        worker_uid=request.worker_uid,
        assignment_id=f"reserved-{request.worker_uid}",
        owner_key=request.owner_key,
        exclusive=not request.shareable,
        host=request.host,
    )


class ActivationPlanner:
    """Finds the workers that the free seats go to."""

    def __init__(
        self,
        caches: Caches,
        fleet: Fleet,
        scheduling_queue: SchedulingQueue,
        requests: PlacementRequests,
        refused: Callable[[str], Collection[str]],
    ) -> None:
        self._caches = caches
        self._fleet = fleet
        self._scheduling_queue = scheduling_queue
        self._requests = requests
        self._refused = refused

    def __repr__(self) -> str:
        return f"<HandOut to {self._scheduling_queue!r}>"

    def plan(self, skipped: Collection[ObjectKey] = ()) -> list[ObjectKey]:
        """The workers that would take a seat now, oldest first, were all of them to choose in that order."""
        lanes = [
            entries
            for equivalence_class, entries in self._scheduling_queue.by_equivalence_class().items()
            if equivalence_class is not None
        ]
        heads = [(entries[0], number) for number, entries in enumerate(lanes)]
        positions = [0] * len(lanes)
        heapify(heads)
        takers: list[ObjectKey] = []
        held: list[tuple[str, SeatInfo]] = []
        while heads:
            (_, key), number = heappop(heads)
            if self._consider(key, skipped, takers, held):
                positions[number] += 1
                if positions[number] < len(lanes[number]):
                    heappush(heads, (lanes[number][positions[number]], number))
        for claim, hold in held:
            self._fleet.cancel_reservation(claim, hold.assignment_id)
        return takers

    def explainable(self, keys: Iterable[ObjectKey]) -> list[ObjectKey]:
        """Those of them who can name by now what is in their way. Who asks for the same is one look."""
        answers: dict[PlacementRequest, bool] = {}
        found = []
        for key in keys:
            workload = self._caches.workloads.store.get(key)
            request = self._requests.of(workload) if workload is not None else None
            if request is None:
                continue
            asked = replace(request, worker=_ANYBODY, worker_uid=_ANYBODY, owner_key=_ANYBODY)
            if asked not in answers:
                answers[asked] = not self._fleet.explain(asked).lacks_causes
            if answers[asked]:
                found.append(key)
        return found

    def _consider(
        self,
        key: ObjectKey,
        skipped: Collection[ObjectKey],
        takers: list[ObjectKey],
        held: list[tuple[str, SeatInfo]],
    ) -> bool:
        """Let one worker choose; returns whether the next one of its lane may find something too."""
        workload = self._caches.workloads.store.get(key)
        request = self._requests.of(workload) if workload is not None else None
        if workload is None or request is None or key in skipped or self._is_seated(workload):
            return True
        offer = self._fleet.select(request, self._refused(request.worker_uid))
        if offer is None:
            # What refused it, or what it is about to sit on, may still be open to the others.
            return self._fleet.select(replace(request, worker_uid=_ANYBODY)) is not None
        hold = reservation_of(request)
        self._fleet.reserve(offer.claim, hold)
        held.append((offer.claim, hold))
        takers.append(key)
        return True

    def _is_seated(self, workload: Workload) -> bool:
        """Whether it has a seat on an allocated claim already: it waits for its Pod only."""
        name = workload.status.claim_name
        claim = self._caches.claims.store.get(ObjectKey(workload.metadata.namespace, name)) if name else None
        return claim is not None and claim.allocated
