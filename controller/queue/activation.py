"""Selection of the waiting workers that can use freed capacity: the oldest ones that fit.

Workers of one equivalence class have equal requests. Once one of them finds no seat, the others of its class
find none either and are not checked. The seat that a worker would choose is reserved while younger workers
choose, and every reservation is cancelled at the end. A plan therefore leaves the fleet unchanged, and is
made without awaiting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from heapq import heapify, heappop, heappush

from controller.api.requests import EquivalenceClass, PlacementRequests
from controller.api.workload import Workload
from controller.cluster.caches import Caches
from controller.queue.refused_groups import RefusedGroups
from controller.queue.scheduling_queue import SchedulingQueue
from informers.api import ObjectKey
from placement.fleet import Fleet
from placement.types import PlacementRequest, Refusals, SeatInfo

_ANY_WORKER = "any worker of the class"
"""A placeholder for the UID of a worker that has no seat and that no place has refused."""


def reservation_of(request: PlacementRequest) -> SeatInfo:
    """Return the reservation for a seat that a worker has chosen and not booked yet."""
    return SeatInfo(
        worker=request.worker,
        worker_uid=request.worker_uid,
        assignment_id=f"reserved-{request.worker_uid}",
        owner_key=request.owner_key,
        exclusive=not request.shareable,
        host=request.host,
    )


class ActivationPlanner:
    """Finds the waiting workers that get the free seats."""

    def __init__(
        self,
        caches: Caches,
        fleet: Fleet,
        scheduling_queue: SchedulingQueue,
        requests: PlacementRequests,
        refusals: Callable[[str], Refusals],
        *,
        refused_groups: RefusedGroups,
    ) -> None:
        self._caches = caches
        self._fleet = fleet
        self._scheduling_queue = scheduling_queue
        self._requests = requests
        self._refusals = refusals
        self._refused_groups = refused_groups

    def plan(self, skipped: Collection[ObjectKey] = ()) -> list[ObjectKey]:
        """Return the workers that would each book a seat now, if all chose in creation order."""
        classes = self._scheduling_queue.by_equivalence_class()
        entries = [
            workers
            for key, workers in classes.items()
            if isinstance(key, EquivalenceClass)
            and key.template.shareable
            and not self._refused_groups.holds_pods(key)
        ]
        heads = [(workers[0], number) for number, workers in enumerate(entries)]
        positions = [0] * len(entries)
        heapify(heads)
        planned: list[ObjectKey] = []
        reserved: list[tuple[str, SeatInfo]] = []
        while heads:
            (_, key), number = heappop(heads)
            if self._choose(key, skipped, planned, reserved):
                positions[number] += 1
                if positions[number] < len(entries[number]):
                    heappush(heads, (entries[number][positions[number]], number))
        for claim, reservation in reserved:
            self._fleet.cancel_reservation(claim, reservation.assignment_id)
        return planned

    def explainable(self, keys: Iterable[ObjectKey]) -> list[ObjectKey]:
        """Return the given workers whose wait now has a known cause."""
        answers: dict[PlacementRequest, bool] = {}
        explainable = []
        for key in keys:
            _, request = self._request_of(key)
            if request is None:
                continue
            # Equal requests have equal causes: explain each one once.
            asked = replace(request, worker=_ANY_WORKER, worker_uid=_ANY_WORKER, owner_key=_ANY_WORKER)
            if asked not in answers:
                answers[asked] = not self._fleet.explain(asked).lacks_causes
            if answers[asked]:
                explainable.append(key)
        return explainable

    def _choose(
        self,
        key: ObjectKey,
        skipped: Collection[ObjectKey],
        planned: list[ObjectKey],
        reserved: list[tuple[str, SeatInfo]],
    ) -> bool:
        """Reserve a seat for one worker. Return whether the next one of its class may find a seat too."""
        workload, request = self._request_of(key)
        if workload is None or request is None or key in skipped or self._has_allocated_claim(workload):
            return True
        offer = self._fleet.select(request, self._refusals(request.worker_uid))
        if offer is None:
            # Places that refused this worker, or where it already has a seat, may accept the others.
            anybody = replace(request, worker_uid=_ANY_WORKER)
            return self._fleet.select(anybody, self._refusals(_ANY_WORKER)) is not None
        reservation = reservation_of(request)
        self._fleet.reserve(offer.claim, reservation)
        reserved.append((offer.claim, reservation))
        planned.append(key)
        return True

    def _request_of(self, key: ObjectKey) -> tuple[Workload | None, PlacementRequest | None]:
        workload = self._caches.workloads.store.get(key)
        return workload, self._requests.of(workload) if workload is not None else None

    def _has_allocated_claim(self, workload: Workload) -> bool:
        name = workload.status.claim_name
        claim = self._caches.claims.store.get(ObjectKey(workload.metadata.namespace, name)) if name else None
        return claim is not None and claim.allocated
