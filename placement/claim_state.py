"""The state of one claim: its allocation, its occupants, and what follows from both.

The occupants of a claim are its ledger's seats, pending reservations of this process, and live Pods without a
seat. All three count alike (limit, owners, exclusivity, host resources), and each worker counts once. The
derived values are immutable: an index is updated by comparing the old with the new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from placement.claim_rank import ClaimRank
from placement.host_resources import ZERO, HostResources, requested
from placement.tolerations import untolerated
from placement.types import (
    Amounts,
    AttributeDemand,
    Claim,
    Device,
    DeviceID,
    JoinCheck,
    PodUse,
    SeatInfo,
)


@dataclass(frozen=True, slots=True)
class DerivedState:
    """The properties of a claim that decisions use. `check` None: the claim itself can be joined."""

    node: str
    check: JoinCheck | None
    rank: ClaimRank
    smallest_bytes: int | None
    """Memory of the smallest device. `None` if the memory of any device is not known."""
    tainted: bool
    """Whether a device has a taint that the claim does not tolerate."""
    accepted_by: frozenset[AttributeDemand]
    """The demands that accept its device."""
    unbound_requests: HostResources
    """Requests of the occupants whose Pod is not bound yet. The node's bound Pods count separately."""

    def is_less_occupied_than(self, before: DerivedState | None) -> bool:
        """Return whether, by its occupants alone, a worker may join now that could not join before."""
        if before is None or before.node != self.node:
            return False
        return (
            (self.check is None and before.check is not None)
            or self.rank.seats < before.rank.seats
            or before.unbound_requests.exceeds(self.unbound_requests)
        )


class Occupant(NamedTuple):
    """A worker on a claim, by a seat, a reservation or a Pod."""

    worker_uid: str
    owner_key: str
    exclusive: bool
    host: Amounts


@dataclass(slots=True, eq=False)
class ClaimState:
    """All facts about one claim name. They arrive in any order; `claim` is None until the claim is seen.

    A worker with a seat has no reservation: `set_seats` drops it.
    """

    name: str
    claim: Claim | None = None
    seats: tuple[SeatInfo, ...] = ()
    reservations: dict[str, SeatInfo] = field(default_factory=dict)
    """Bookings in progress, by worker UID."""
    pods: dict[str, PodUse] = field(default_factory=dict)
    """Unfinished Pods that use the claim, by UID."""
    workers: frozenset[str] = frozenset()
    """UIDs of the occupants at the last `derive`."""
    derived: DerivedState | None = None
    """The state that the indexes hold, None if the claim is in no index."""

    @property
    def is_empty(self) -> bool:
        """Whether no fact is left, so that the state can be dropped."""
        return self.claim is None and not self.seats and not self.reservations and not self.pods

    def set_seats(self, seats: tuple[SeatInfo, ...]) -> None:
        """Store the ledger's seats and drop the reservations that they fulfill."""
        self.seats = seats
        for seat in seats:
            self.reservations.pop(seat.worker_uid, None)
            self.cancel_reservation(seat.assignment_id)

    def reserve(self, reservation: SeatInfo) -> None:
        """Store the worker's latest reservation, unless the ledger already shows its assignment."""
        if all(reservation.assignment_id != seat.assignment_id for seat in self.seats):
            self.reservations[reservation.worker_uid] = reservation

    def cancel_reservation(self, assignment_id: str) -> None:
        """Drop the reservation of this assignment, if there is one."""
        for worker_uid, reservation in self.reservations.items():
            if reservation.assignment_id == assignment_id:
                del self.reservations[worker_uid]
                return

    def occupants(self) -> list[Occupant]:
        """Return the occupants: seats first, then reservations, then Pods of workers with neither."""
        occupants = [_from_seat(seat) for seat in self.seats]
        seen = {seat.worker_uid for seat in self.seats}
        for reservation in self.reservations.values():
            if reservation.worker_uid not in seen:
                seen.add(reservation.worker_uid)
                occupants.append(_from_seat(reservation))
        for pod in (self.pods[uid] for uid in sorted(self.pods)):
            if (pod.worker_uid or pod.uid) not in seen:
                seen.add(pod.worker_uid or pod.uid)
                occupants.append(_from_pod(pod))
        return occupants

    def derive(
        self, devices: Mapping[DeviceID, Device] | None, demands: Iterable[AttributeDemand] = ()
    ) -> DerivedState | None:
        """Return the derived state, given the devices of the claim's node (None: the node is ignored).

        `demands` are those that distinguish devices in the indexes. A claim that has not been seen or has no
        node has no devices.
        """
        occupants = self.occupants()
        self.workers = frozenset(occupant.worker_uid for occupant in occupants)
        claim = self.claim
        if claim is None or not claim.allocated or not claim.node:
            return None
        held = None if devices is None else [devices[row.id] for row in claim.devices if row.id in devices]
        return DerivedState(
            node=claim.node,
            check=self._check(claim, held, occupants),
            rank=ClaimRank(
                size_bytes=max((device.memory_bytes or 0 for device in held or ()), default=0),
                owners=len({occupant.owner_key for occupant in occupants}),
                seats=len(occupants),
            ),
            smallest_bytes=_smallest_bytes(claim, held or []),
            tainted=_is_tainted(claim, held or []),
            accepted_by=held[0].accepted_by(demands) if held else frozenset(),
            unbound_requests=self._unbound_requests(occupants),
        )

    def _check(self, claim: Claim, held: list[Device] | None, occupants: list[Occupant]) -> JoinCheck | None:
        """Return the first condition that the claim fails for every worker."""
        check = _allocation_check(claim)
        if check is not None:
            return check
        if held is None:
            return JoinCheck.NODE_UNKNOWN
        if not held or held[0].memory_bytes is None:
            return JoinCheck.DEVICE_UNKNOWN
        if held[0].multiple_allocations:
            return JoinCheck.MULTIPLE_ALLOCATIONS
        if not self.seats:
            # An empty ledger is about to be deleted, even if this process has a reservation on it.
            return JoinCheck.NO_SEATS
        if any(occupant.exclusive for occupant in occupants):
            return JoinCheck.EXCLUSIVE
        return JoinCheck.DEVICE_TAINTED if _is_tainted(claim, held) else None

    def _unbound_requests(self, occupants: list[Occupant]) -> HostResources:
        # What a Pod asks for counts once there is one: admission may have changed its template.
        ordered = sorted(self.pods.values(), key=lambda pod: (bool(pod.node), pod.uid))
        pods = {pod.worker_uid or pod.uid: pod for pod in ordered}
        total = ZERO
        for occupant in occupants:
            pod = pods.get(occupant.worker_uid)
            if pod is None:
                total = total.plus(requested(occupant.host))
            elif not pod.node:
                total = total.plus(requested(pod.requests))
        return total


def _smallest_bytes(claim: Claim, held: list[Device]) -> int | None:
    sizes = [device.memory_bytes for device in held if device.memory_bytes is not None]
    return min(sizes) if sizes and len(sizes) == len(claim.devices) else None


def _is_tainted(claim: Claim, held: list[Device]) -> bool:
    # The tolerations that count are those that the allocation copied from the claim.
    tolerations = {row.id.device: row.tolerations for row in claim.devices}
    return any(untolerated(device.taints, tolerations.get(device.name, ())) for device in held)


def _allocation_check(claim: Claim) -> JoinCheck | None:
    if not claim.joinable:
        return JoinCheck.ENDING
    if any(row.admin_access for row in claim.devices):
        return JoinCheck.ADMIN_ACCESS
    return JoinCheck.NOT_ONE_DEVICE if len(claim.devices) != 1 else None


def _from_seat(seat: SeatInfo) -> Occupant:
    return Occupant(seat.worker_uid, seat.owner_key, seat.exclusive, seat.host)


def _from_pod(pod: PodUse) -> Occupant:
    key = pod.worker_uid or pod.uid
    return Occupant(key, pod.owner_key or key, pod.exclusive, pod.requests)
