"""The rules of booking and releasing seats (contract §4).

Pure functions from one version of a ledger to a new list of seats, or to the reason for a refusal. The caller
applies them again to every version that it reads, so a result is valid for the version on which it is
written.

Invariant, for every caller: no returned list of seats exceeds the limit, unless the ledger already did and
the write adds no seat. A release removes exactly the seats that it names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from ledger.state import ClaimLedger, Seat, SeatRef


class BookingPurpose(Enum):
    """Why a seat is booked. It matters for missing, empty and terminating ledgers, not for the limit."""

    JOIN = "join"
    """Share the claim of other workers. It must have a ledger with seats."""
    CREATE = "create"
    """Create the ledger of the worker's own claim, or continue with one created before a crash."""
    REPAIR = "repair"
    """Restore a lost seat on a live claim, and the ledger if that is lost too."""


class RefusalReason(Enum):
    """Why a ledger refuses a booking."""

    NO_LEDGER = "NoLedger"
    """A joiner found no ledger: the claim is about to be deleted."""
    DYING = "Dying"
    """The ledger is terminating, or does not own the claim: garbage collection deletes the claim."""
    EMPTY = "Empty"
    """The ledger has no seats: it is about to be deleted."""
    FOREIGN = "Foreign"
    """Only other workers hold the ledger with this name: the creator takes the next name."""
    PREDECESSOR = "Predecessor"
    """A worker with this name and another UID has a seat, and no live read has shown that it is gone."""
    EXCLUSIVE_WORKER = "ExclusiveWorker"
    """The worker is exclusive and the claim has other workers."""
    EXCLUSIVE_SEAT = "ExclusiveSeat"
    """Another worker on the claim is exclusive."""
    FULL = "Full"
    """One more seat would exceed the limit."""
    HOST_RESOURCES = "HostResources"
    """The caller's recheck: the node has too few free resources."""
    NOT_ELIGIBLE = "NotEligible"
    """The caller's recheck: the worker can no longer join the claim."""


@dataclass(frozen=True, slots=True)
class LivePod:
    """A Pod on the claim that has not ended. Without a seat it counts as one, for all other workers."""

    workload: str
    workload_uid: str
    exclusive: bool
    created_at: str = ""
    """Creation time of its Workload (RFC 3339, UTC). An empty one counts as the oldest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatRequest:
    """A worker's request for a seat on one claim."""

    workload: str
    workload_uid: str
    owner_id: str
    exclusive: bool
    """Not shareable: exclusive, or on several devices."""
    host_request: str
    """Memory that its Pod requests, as a canonical quantity."""
    seat_limit: int
    """The effective limit, at least 1 (`placement.types.PlacementRequest.seat_limit`)."""
    created_at: str = ""
    """Creation time of the Workload (RFC 3339, UTC). In a repair only Pods of older Workloads count as
    seats."""
    recorded_assignment_id: str = ""
    """The assignment on *this* claim that the Pod's environment or the status names, else empty."""
    gone_predecessor_uid: str | None = None
    """UID of a predecessor with this name whose seat may be replaced: live reads showed no Workload and no
    Pod."""
    claim_owner_uid: str | None = None
    """UID of the ledger in the claim's owner reference. None if the caller is about to write the
    reference."""

    def __post_init__(self) -> None:
        """Reject a limit below 1: without a limit the effective one is `MAX_SEATS`, not 0."""
        if self.seat_limit < 1:
            raise ValueError(f"seat limit {self.seat_limit} is not an effective limit")


@dataclass(frozen=True, slots=True)
class Grant:
    """The ledger's seats with the worker's own. `writes` is False if the ledger already has exactly these."""

    seats: tuple[Seat, ...]
    writes: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """No seat for the worker. `holder` is the seat that causes the refusal, if there is one."""

    reason: RefusalReason
    text: str
    holder: Seat | None = None


def book(
    ledger: ClaimLedger | None,
    request: SeatRequest,
    live_pods: Sequence[LivePod],
    *,
    purpose: BookingPurpose,
    assignment_id: str,
) -> Grant | Refusal:
    """Decide one booking at one version of a ledger (None: there is no ledger).

    `live_pods` are the claim's Pods, with or without a seat. `assignment_id` is the recorded assignment or a
    fresh one. A seat of this worker that already has this ID needs no write. Any other seat of this worker is
    uncommitted, and another process may be releasing it.
    """
    refusal = _check_ledger(ledger, request, purpose)
    if refusal is not None:
        return refusal
    before = ledger.seats if ledger is not None else ()
    own = next((seat for seat in before if seat.workload == request.workload), None)
    if own is not None and own.workload_uid not in {request.workload_uid, request.gone_predecessor_uid}:
        text = f"{own.workload} with UID {own.workload_uid} has a seat and may still exist"
        return Refusal(RefusalReason.PREDECESSOR, text, own)
    seatless = _seatless_pods(before, request, live_pods, purpose)
    others: list[Seat | LivePod] = [*(seat for seat in before if seat is not own), *seatless]
    refusal = _check_sharing(request, own, others, purpose)
    if refusal is not None:
        return refusal
    if own is None and len(before) + len(seatless) >= request.seat_limit:
        return Refusal(RefusalReason.FULL, f"shared claims hold at most {request.seat_limit} workers")
    grant = _grant(before, own, request, assignment_id)
    if len(grant.seats) > max(request.seat_limit, len(before)):
        raise AssertionError(f"booking {request} leaves {len(grant.seats)} seats on {ledger}")
    return grant


def _check_ledger(
    ledger: ClaimLedger | None, request: SeatRequest, purpose: BookingPurpose
) -> Refusal | None:
    """Refuse a missing, terminating or empty ledger."""
    if ledger is None:
        if purpose is BookingPurpose.JOIN:
            return Refusal(RefusalReason.NO_LEDGER, "the claim has no ledger and is being deleted")
        return None
    if request.claim_owner_uid is not None and request.claim_owner_uid != ledger.metadata.uid:
        return Refusal(RefusalReason.DYING, f"{ledger.claim_name} belongs to a deleted ledger")
    if ledger.terminating and purpose is not BookingPurpose.REPAIR:
        return Refusal(RefusalReason.DYING, f"{ledger.metadata.name} is being deleted")
    if not ledger.seats and purpose is BookingPurpose.JOIN:
        return Refusal(RefusalReason.EMPTY, f"{ledger.metadata.name} has no seats and is about to be deleted")
    return None


def _seatless_pods(
    before: Sequence[Seat], request: SeatRequest, live_pods: Sequence[LivePod], purpose: BookingPurpose
) -> list[LivePod]:
    """Return the live Pods of other workers that count as seats.

    In a repair only the Pods of older Workloads count, so that not all repairs of one claim are refused.
    """
    seated = {seat.workload_uid for seat in before} | {request.workload_uid, request.gone_predecessor_uid}
    return [
        pod
        for pod in live_pods
        if pod.workload_uid not in seated
        and (purpose is not BookingPurpose.REPAIR or _creation_order(pod) < _creation_order(request))
    ]


def _creation_order(worker: LivePod | SeatRequest) -> tuple[str, str, str]:
    return (worker.created_at, worker.workload, worker.workload_uid)


def _check_sharing(
    request: SeatRequest, own: Seat | None, others: Sequence[Seat | LivePod], purpose: BookingPurpose
) -> Refusal | None:
    """Refuse a claim that the worker must not share. The rules apply to an existing seat too."""
    if not others:
        return None
    if purpose is BookingPurpose.CREATE and own is None:
        return Refusal(RefusalReason.FOREIGN, f"{others[0].workload} holds a claim with this name")
    if request.exclusive:
        text = f"{request.workload} is exclusive and {others[0].workload} is on the claim"
        return Refusal(RefusalReason.EXCLUSIVE_WORKER, text)
    for other in others:
        if other.exclusive:
            holder = other if isinstance(other, Seat) else None
            return Refusal(RefusalReason.EXCLUSIVE_SEAT, f"{other.workload} is exclusive", holder)
    return None


def _grant(before: tuple[Seat, ...], own: Seat | None, request: SeatRequest, assignment_id: str) -> Grant:
    """Return the seats with the worker's own: unchanged, adopted, replaced or added."""
    if own is not None and (own.workload_uid, own.assignment_id) == (request.workload_uid, assignment_id):
        return Grant(before, writes=False)
    # Unknown fields of an existing seat stay.
    seat = (own or Seat(workload=request.workload)).model_copy(
        update={
            "workload_uid": request.workload_uid,
            "assignment_id": assignment_id,
            "owner_id": request.owner_id,
            "exclusive": request.exclusive,
            "host_request": request.host_request,
        }
    )
    if own is None:
        return Grant((*before, seat))
    return Grant(tuple(seat if old is own else old for old in before))


@dataclass(frozen=True, slots=True)
class SeatsRemain:
    """The seats without the removed ones. If none remain, the ledger is retired next."""

    removed: tuple[SeatRef, ...]
    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class NothingToRelease:
    """The ledger has seats, but none of the named ones."""


@dataclass(frozen=True, slots=True)
class LedgerEmpty:
    """This version has no seats. It may be deleted unless a live Pod without a seat uses the claim."""


def release(
    ledger: ClaimLedger, releases: Collection[SeatRef]
) -> SeatsRemain | NothingToRelease | LedgerEmpty:
    """Remove exactly the named seats. A seat with another UID or assignment stays.

    The caller guarantees that no Pod of these UIDs is on the claim any more, or that it has ended.
    """
    if not ledger.seats:
        return LedgerEmpty()
    named = frozenset(releases)
    removed = tuple(seat.ref for seat in ledger.seats if seat.ref in named)
    if not removed:
        return NothingToRelease()
    return SeatsRemain(removed, tuple(seat for seat in ledger.seats if seat.ref not in named))


def keeps_claim(live_pods: Sequence[LivePod], releases: Collection[SeatRef]) -> bool:
    """Return whether a ledger without seats must stay because another worker's live Pod counts as a seat."""
    leaving = {ref.workload_uid for ref in releases}
    return any(pod.workload_uid not in leaving for pod in live_pods)
