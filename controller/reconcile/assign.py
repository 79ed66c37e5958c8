"""Contract §5.9: a worker without a claim gets one, by the placement strategy.

`binpack` takes a seat first and cuts an own claim if no ledger accepts; `spread` cuts its own claim first.
Order up: seat, then status, then Pod.
"""

from __future__ import annotations

from enum import Enum, auto

from controller.api.documents import claim_document
from controller.api.dra import ResourceClaim
from controller.api.reasons import Phase
from controller.api.status import Assignment, PlacementDetails, StatusUpdate
from controller.api.workload import Workload
from controller.config.settings import PlacementStrategy
from controller.reconcile.commit import Commit
from controller.reconcile.context import ReconcileContext, own_claim_names
from controller.reconcile.reporting import Waiting
from controller.reconcile.seat_booker import ContendedError, SeatBooker
from informers.api import ObjectKey
from informers.errors import AlreadyExists, OutcomeUnknown, ServerError
from ledger.book import Booked, Contended, Refused
from ledger.state import CLAIM_LEDGERS_KIND, ClaimLedger
from ledger.transitions import RefusalReason
from placement.device_request import device_requests
from placement.quantity import whole_gib
from placement.types import DeviceShape, PlacementRequest


class ClaimNameState(Enum):
    """What stands under a name that a worker's own claim may have."""

    OPEN = auto()
    """Nothing, or a living claim with its ledger: the ledger decides."""
    ENDING = auto()
    """A claim that ends, with nobody else on it: it is waited for."""
    OTHERS = auto()
    """A claim that is others', or ends while others are on it: the next name is taken."""


class Assign:
    """Finds a claim for a worker that has none and commits it."""

    def __init__(
        self, context: ReconcileContext, seats: SeatBooker, commit: Commit, waiting: Waiting
    ) -> None:
        self._context = context
        self._seats = seats
        self._commit = commit
        self._waiting = waiting

    async def assign(self, workload: Workload, request: PlacementRequest) -> Workload | None:
        """The Workload with its assignment committed, or `None` where it waits and its status says why."""
        adopted = await self._seats.adopt(workload)
        if adopted is not None:
            return await self._assign_to(workload, request, adopted)
        seat_first = self._context.settings.placement_strategy is PlacementStrategy.BINPACK
        if seat_first and request.shareable:
            joined = await self.join(workload, request)
            if joined is not None:
                return joined
        return await self.cut_own_claim(workload, request)

    async def join(self, workload: Workload, request: PlacementRequest) -> Workload | None:
        """Take a seat and commit it; `None` where no ledger accepts this worker (or the commit is lost)."""
        booked = await self._seats.take(workload, request)
        if booked is None:
            return None
        return await self._assign_to(workload, request, booked)

    async def cut_own_claim(self, workload: Workload, request: PlacementRequest) -> Workload | None:
        """Cut a dedicated claim: ledger with the founder's seat, claim, status."""
        settings = self._context.settings
        if self._context.caches.device_classes.store.get(ObjectKey("", settings.device_class)) is None:
            await self._waiting.without_device_class(workload)
            return None
        tiers = self._context.fleet.device_shapes(request)
        if not tiers:
            await self._waiting.without_claim(workload, request)
            return None
        for name in own_claim_names(workload):
            match self._name_standing(workload, name):
                case ClaimNameState.OTHERS:
                    continue
                case ClaimNameState.ENDING:
                    return await self._await_predecessor(workload, request, name)
                case ClaimNameState.OPEN:
                    pass
            found = await self._found(workload, name)
            if found is None:
                continue
            ledger, booked = found
            standing = await self._create_claim(name, ledger, tiers, request)
            if standing is ClaimNameState.OPEN:
                return await self._assign_to(workload, request, booked)
            workload = await self._commit.give_back(workload, booked)
            if standing is ClaimNameState.ENDING:
                return await self._await_predecessor(workload, request, name)
        raise ContendedError(workload.name)

    def _name_standing(self, workload: Workload, name: str) -> ClaimNameState:
        """Whether a claim of this name can be founded or gone on from, as the caches show it."""
        claim, ledger = self._context.claim(name), self._context.ledger(name)
        if claim is None or (
            ledger is not None and claim.owned_by(ledger.metadata.uid) and not claim.deleting
        ):
            return ClaimNameState.OPEN
        seats = ledger.seats if ledger is not None else ()
        others = any(seat.workload_uid != workload.uid for seat in seats)
        others |= any(pod.workload_uid != workload.uid for pod in self._context.ledgers.live_pods(name))
        return ClaimNameState.OTHERS if others else ClaimNameState.ENDING

    async def _await_predecessor(
        self, workload: Workload, request: PlacementRequest, name: str
    ) -> Workload | None:
        """Wait for the end of the claim of an earlier life; a seat elsewhere may be taken meanwhile."""
        joined = await self.join(workload, request)
        if joined is None:
            await self._waiting.for_predecessor_claim(workload, name)
        return joined

    async def _found(self, workload: Workload, name: str) -> tuple[ClaimLedger, Assignment] | None:
        """Open the ledger of that name; `None` where only others hold it."""
        booking = self._context.requests.seat_request(workload)
        answer = await self._context.book.create(name, booking)
        match answer:
            case Booked(ledger, seat):
                return ledger, Assignment(name, seat.assignment_id)
            case Refused(refusal) if refusal.reason is RefusalReason.FOREIGN:
                return None
            case Refused() | Contended():
                raise ContendedError(name)

    async def _create_claim(
        self, name: str, ledger: ClaimLedger, tiers: tuple[DeviceShape, ...], request: PlacementRequest
    ) -> ClaimNameState:
        """Create the ledger's claim; `OPEN` where it is there now, else what stands in its place."""
        settings = self._context.settings
        requests = device_requests(
            tiers,
            memory_bytes=request.memory_bytes,
            device_class=settings.device_class,
            driver=settings.device_driver,
        )
        document = claim_document(name, settings.namespace, ledger.metadata.uid, requests)
        try:
            await self._context.writer.create_claim(document)
        except (AlreadyExists, OutcomeUnknown, ServerError) as error:
            # After a crash or a lost answer it may be ours already.
            claim = await self._context.live.claim(name)
            if claim is None:
                raise ContendedError(name) from error
            return _standing_of(claim, ledger)
        return ClaimNameState.OPEN

    async def _assign_to(self, workload: Workload, request: PlacementRequest, booked: Assignment) -> Workload:
        outcome = StatusUpdate(
            phase=Phase.PLACING,
            reason=self._context.booked_reason(workload, booked.claim),
            assignment=booked,
            details=PlacementDetails(memory_per_device=whole_gib(request.memory_bytes)),
        )
        return await self._commit.assign(workload, outcome, booked)


def _standing_of(claim: ResourceClaim, ledger: ClaimLedger) -> ClaimNameState:
    """What a claim of the wanted name is to a ledger that was just opened for it."""
    if claim.deleting:
        return ClaimNameState.ENDING
    if claim.owned_by(ledger.metadata.uid):
        return ClaimNameState.OPEN
    # Owned by a ledger that is gone it is dying; without one it is somebody else's, and stays.
    dying = any(owner.kind == CLAIM_LEDGERS_KIND for owner in claim.metadata.owner_references)
    return ClaimNameState.ENDING if dying else ClaimNameState.OTHERS
