"""What may become of a ledger: the rules of booking and releasing seats (contract §4).

Pure functions from one version of a ledger to a new list of seats, or to the reason why not. They are
asked again for every version that is read, so whatever they say holds for the version it is written on.

Invariant, whoever asks: no list of seats handed out here is longer than the limit, unless the ledger
was before and this write adds none; and a release takes away exactly what it names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from ledger.state import ClaimLedger, Seat, SeatRef


class BookingPurpose(Enum):
    """Why a seat is booked. It decides about missing, empty and ending ledgers, never about the limit."""

    JOIN = "join"
    """Share a claim that others hold: it must have a ledger with seats."""
    CREATE = "create"
    """Open the ledger of one's own claim, or go on from one opened before a crash."""
    REPAIR = "repair"
    """Get back a seat that was lost under a live claim, with the ledger if that is gone too."""


class RefusalReason(Enum):
    """Why a ledger does not take a booking."""

    NO_LEDGER = "NoLedger"
    """It is missing: to a joiner the claim is dying."""
    DYING = "Dying"
    """It is being deleted, or does not own the claim any more: garbage collection takes that."""
    EMPTY = "Empty"
    """It has no seats: it is being retired."""
    FOREIGN = "Foreign"
    """A ledger of this name holds only other workers: the founder takes the next name."""
    PREDECESSOR = "Predecessor"
    """A worker of the same name and another UID sits there, and nobody vouched that it is gone."""
    EXCLUSIVE_WORKER = "ExclusiveWorker"
    """The worker shares with nobody, and somebody is there."""
    EXCLUSIVE_SEAT = "ExclusiveSeat"
    """Somebody there shares with nobody."""
    FULL = "Full"
    """Another seat would be more than the limit."""
    HOST_RESOURCES = "HostResources"
    """The node has no room for it: the caller's own check."""
    NOT_ELIGIBLE = "NotEligible"
    """The claim is no longer one to take a seat on: the caller's own check."""


@dataclass(frozen=True, slots=True)
class LivePod:
    """A Pod on the claim that has not ended. Without a seat it counts as one, for everybody else."""

    workload: str
    workload_uid: str
    exclusive: bool
    created_at: str = ""
    """Creation of its Workload (RFC 3339, UTC, as the API writes it); empty counts as the oldest."""

    @property
    def age_key(self) -> tuple[str, str, str]:
        """Oldest first, ending in the UID."""
        return (self.created_at, self.workload, self.workload_uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatRequest:
    """A worker that wants a seat on one claim."""

    workload: str
    workload_uid: str
    owner_id: str
    exclusive: bool
    """Not shareable: exclusive, or on several devices."""
    host_request: str
    """Canonical quantity of the memory that its Pod requests."""
    seat_limit: int
    """The effective limit, at least 1 (`placement.types.Request.seat_limit`)."""
    created_at: str = ""
    """Creation of the Workload (RFC 3339, UTC): in a repair only Pods of older ones count as seats."""
    recorded_assignment_id: str = ""
    """The assignment that the Pod's environment or the status already names *on this claim*, else empty."""
    gone_predecessor_uid: str | None = None
    """UID of a worker of this name that fresh reads showed to be gone, with its Pod: it may be replaced."""
    claim_owner_uid: str | None = None
    """UID of the ledger that owns the claim, as the claim shows it; `None` where the claim is not made yet
    or is about to be re-pointed."""

    def __post_init__(self) -> None:
        """Refuse a limit that would refuse everybody: unlimited is `MAX_SEATS`, never 0."""
        if self.seat_limit < 1:
            raise ValueError(f"seat limit {self.seat_limit} is not an effective limit")

    @property
    def age_key(self) -> tuple[str, str, str]:
        """Oldest first, ending in the UID."""
        return (self.created_at, self.workload, self.workload_uid)


@dataclass(frozen=True, slots=True)
class Adopt:
    """The worker's own seat is there. `writes` where it must be given our assignment first."""

    seat: Seat
    seats: tuple[Seat, ...]
    writes: bool


@dataclass(frozen=True, slots=True)
class Replace:
    """A predecessor's seat becomes this worker's, in its place."""

    seat: Seat
    seats: tuple[Seat, ...]
    writes: bool = True


@dataclass(frozen=True, slots=True)
class Add:
    """One more seat."""

    seat: Seat
    seats: tuple[Seat, ...]
    writes: bool = True


Grant = Adopt | Replace | Add


@dataclass(frozen=True, slots=True)
class Refusal:
    """No seat here. `holder` is the seat that stands in the way, where it is one."""

    reason: RefusalReason
    text: str
    holder: Seat | None = None


def book(
    ledger: ClaimLedger | None,
    booking: SeatRequest,
    occupancy: Sequence[LivePod],
    *,
    purpose: BookingPurpose,
    assignment_id: str,
) -> Grant | Refusal:
    """Decide about one booking on one version of a ledger (`None`: there is none).

    `occupancy` are the claim's live Pods, seated or not. `assignment_id` is what the seat shall stand
    under: the recorded assignment, or a fresh one. A seat that already does needs no write; any other
    seat of ours is uncommitted, and somebody may be giving it back.
    """
    refusal = _unusable(ledger, booking, purpose)
    if refusal is not None:
        return refusal
    before = ledger.seats if ledger is not None else ()
    own = next((seat for seat in before if seat.workload == booking.workload), None)
    if own is not None and own.workload_uid not in {booking.workload_uid, booking.gone_predecessor_uid}:
        return Refusal(
            RefusalReason.PREDECESSOR,
            f"{own.workload} sits there with UID {own.workload_uid} and is not known to be gone",
            own,
        )
    others = [seat for seat in before if seat is not own]
    seatless = _seatless(before, booking, occupancy, purpose)
    refusal = _bad_company(booking, own, others, seatless, purpose)
    if refusal is not None:
        return refusal
    grant = _grant(before, booking, own, len(seatless), assignment_id)
    if not isinstance(grant, Refusal) and len(grant.seats) > max(booking.seat_limit, len(before)):
        raise AssertionError(f"booking {booking} leaves {len(grant.seats)} seats on {ledger}")
    return grant


def _unusable(ledger: ClaimLedger | None, booking: SeatRequest, purpose: BookingPurpose) -> Refusal | None:
    """Ledgers that nobody, or at least no newcomer, may take a seat in."""
    if ledger is None:
        if purpose is BookingPurpose.JOIN:
            return Refusal(RefusalReason.NO_LEDGER, "the claim's ledger is gone, so the claim is dying")
        return None
    if booking.claim_owner_uid is not None and booking.claim_owner_uid != ledger.metadata.uid:
        return Refusal(RefusalReason.DYING, f"{ledger.claim_name} belongs to a ledger that is gone")
    if ledger.terminating and purpose is not BookingPurpose.REPAIR:
        return Refusal(RefusalReason.DYING, f"{ledger.metadata.name} is being deleted")
    if not ledger.seats and purpose is BookingPurpose.JOIN:
        return Refusal(RefusalReason.EMPTY, f"{ledger.metadata.name} has no seats: it is being retired")
    return None


def _seatless(
    before: Sequence[Seat], booking: SeatRequest, occupancy: Sequence[LivePod], purpose: BookingPurpose
) -> list[LivePod]:
    """The others' live Pods that count as seats: in a repair, so that not all are refused, the older ones."""
    seated = {seat.workload_uid for seat in before} | {booking.workload_uid, booking.gone_predecessor_uid}
    return [
        pod
        for pod in occupancy
        if pod.workload_uid not in seated
        and (purpose is not BookingPurpose.REPAIR or pod.age_key < booking.age_key)
    ]


def _bad_company(
    booking: SeatRequest,
    own: Seat | None,
    others: Sequence[Seat],
    seatless: Sequence[LivePod],
    purpose: BookingPurpose,
) -> Refusal | None:
    """Who shares with whom. Asked for a seat that is adopted just as for a new one."""
    names = [seat.workload for seat in others] + [pod.workload for pod in seatless]
    if not names:
        return None
    if purpose is BookingPurpose.CREATE and own is None:
        return Refusal(RefusalReason.FOREIGN, f"a claim of this name is held by {names[0]}")
    if booking.exclusive:
        return Refusal(
            RefusalReason.EXCLUSIVE_WORKER, f"{booking.workload} is exclusive, {names[0]} is there"
        )
    for seat in others:
        if seat.exclusive:
            return Refusal(RefusalReason.EXCLUSIVE_SEAT, f"{seat.workload} is exclusive", seat)
    for pod in seatless:
        if pod.exclusive:
            return Refusal(RefusalReason.EXCLUSIVE_SEAT, f"{pod.workload} is exclusive and runs there")
    return None


def _grant(
    before: tuple[Seat, ...], booking: SeatRequest, own: Seat | None, seatless: int, assignment_id: str
) -> Grant | Refusal:
    """The new seats: adopt, replace, or add while the limit allows it."""
    if own is None:
        if len(before) + seatless >= booking.seat_limit:
            return Refusal(RefusalReason.FULL, f"shared claims hold at most {booking.seat_limit} workers")
        seat = _written(Seat(workload=booking.workload), booking, assignment_id)
        return Add(seat, (*before, seat))
    if own.workload_uid == booking.workload_uid and own.assignment_id == assignment_id:
        return Adopt(own, before, writes=False)
    seat = _written(own, booking, assignment_id)
    seats = tuple(seat if old is own else old for old in before)
    if own.workload_uid == booking.workload_uid:
        return Adopt(seat, seats, writes=True)
    return Replace(seat, seats)


def _written(seat: Seat, booking: SeatRequest, assignment_id: str) -> Seat:
    """A seat as this booking writes it; fields that we do not know stay."""
    return seat.model_copy(
        update={
            "workload_uid": booking.workload_uid,
            "assignment_id": assignment_id,
            "owner_id": booking.owner_id,
            "exclusive": booking.exclusive,
            "host_request": booking.host_request,
        }
    )


@dataclass(frozen=True, slots=True)
class SeatsRemain:
    """The seats that stay once the named ones are removed. If there are none, the ledger is retired next."""

    removed: tuple[SeatRef, ...]
    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class NothingToRelease:
    """None of the named seats is there, and others are."""


@dataclass(frozen=True, slots=True)
class LedgerEmpty:
    """This version has no seats: it may be retired on it, unless a live Pod without a seat is there."""


def release(
    ledger: ClaimLedger, releases: Collection[SeatRef]
) -> SeatsRemain | NothingToRelease | LedgerEmpty:
    """Take away exactly the named bookings; a seat of another UID or assignment stays.

    The caller vouches that no Pod of these UIDs is on the claim any more, or that it has ended.
    """
    if not ledger.seats:
        return LedgerEmpty()
    named = frozenset(releases)
    seats = tuple(seat for seat in ledger.seats if seat.ref not in named)
    if len(seats) == len(ledger.seats):
        return NothingToRelease()
    removed = tuple(seat.ref for seat in ledger.seats if seat.ref in named)
    return SeatsRemain(removed, seats)


def keeps_claim(occupancy: Sequence[LivePod], releases: Collection[SeatRef]) -> bool:
    """Whether a ledger without seats must stay: somebody else's live Pod counts as a seat."""
    leaving = {ref.workload_uid for ref in releases}
    return any(pod.workload_uid not in leaving for pod in occupancy)
