"""One claim as events have left it: the allocation, who is on it, and what follows from both.

Three sources say who is on a claim: the ledger's seats, bookings of this process that no read has shown yet,
and live Pods without a seat. All three count alike (limit, owners, exclusivity, host resources), each worker
once. What is derived from them is a value, `DerivedState`; indexes follow by comparing the old with the new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from placement.host_resources import NO_ROOM, HostResources, taken
from placement.tolerations import untolerated
from placement.types import AllocatedDevice, Amounts, Claim, Device, DeviceID, JoinCheck, PodUse, SeatInfo


class ClaimRank(NamedTuple):
    """How a claim ranks among those that can be joined, but for its name: less is better."""

    size_bytes: int
    """Of its device; of the largest where it holds several, 0 where none is known."""
    owners: int
    seats: int


@dataclass(frozen=True, slots=True)
class DerivedState:
    """What decisions know about a claim. `check` None: it can be joined, as far as the claim goes."""

    node: str
    check: JoinCheck | None
    rank: ClaimRank
    charge: HostResources
    """What its seats take of the node's host resources beyond the Pods bound there."""


class Occupant(NamedTuple):
    """A worker on a claim, by a seat, a reservation or a Pod."""

    worker_uid: str
    owner_key: str
    exclusive: bool
    host: Amounts


class ClaimState:
    """Everything known under one claim name. Parts come in any order; `claim` is None until it is seen.

    No worker has a reservation that the seats show: `seats_shown` sees to it.
    """

    __slots__ = ("claim", "name", "pods", "reserved", "seats", "standing", "workers")

    def __init__(self, name: str) -> None:
        self.name = name
        self.claim: Claim | None = None
        self.seats: tuple[SeatInfo, ...] = ()
        self.reserved: dict[str, SeatInfo] = {}
        """Bookings under way, by worker UID."""
        self.pods: dict[str, PodUse] = {}
        """Unfinished Pods that use the claim, by UID."""
        self.workers: frozenset[str] = frozenset()
        """UIDs of the workers on the claim, as of `standing`."""
        self.standing: DerivedState | None = None
        """What the indexes hold; None: nothing."""

    @property
    def vacant(self) -> bool:
        """Whether nothing is known any more, so that the state can be dropped."""
        return self.claim is None and not self.seats and not self.reserved and not self.pods

    def show_seats(self, seats: tuple[SeatInfo, ...]) -> None:
        """Take the ledger's seats; reservations that they show have become seats."""
        self.seats = seats
        for hold in seats:
            self.reserved.pop(hold.worker_uid, None)
            self.cancel(hold.assignment_id)

    def reserve(self, hold: SeatInfo) -> None:
        """Count a booking under way, unless the ledger already shows it. One per worker: the latest."""
        if all(hold.assignment_id != seat.assignment_id for seat in self.seats):
            self.reserved[hold.worker_uid] = hold

    def cancel(self, assignment_id: str) -> None:
        """Drop the reservation of that assignment, if there is one."""
        for worker_uid, hold in self.reserved.items():
            if hold.assignment_id == assignment_id:
                del self.reserved[worker_uid]
                return

    def occupants(self) -> list[Occupant]:
        """Who is on the claim: seats first, then reservations, then Pods of workers without either."""
        occupants = [_by_seat(hold) for hold in self.seats]
        seen = {hold.worker_uid for hold in self.seats}
        for hold in self.reserved.values():
            if hold.worker_uid not in seen:
                seen.add(hold.worker_uid)
                occupants.append(_by_seat(hold))
        for pod in (self.pods[uid] for uid in sorted(self.pods)):
            if (pod.worker_uid or pod.uid) not in seen:
                seen.add(pod.worker_uid or pod.uid)
                occupants.append(_by_pod(pod))
        return occupants

    def derive(self, devices: Mapping[DeviceID, Device] | None) -> DerivedState | None:
        """The standing given the devices of the claim's node (None: the node does not count).

        None for a claim that takes part in nothing: not seen, or without a node.
        """
        occupants = self.occupants()
        self.workers = frozenset(occupant.worker_uid for occupant in occupants)
        claim = self.claim
        if claim is None or not claim.allocated or not claim.node:
            return None
        held = [devices[row.id] for row in claim.devices if row.id in devices] if devices else []
        return DerivedState(
            node=claim.node,
            check=self._check(claim, devices, held, occupants),
            rank=ClaimRank(
                size_bytes=max((device.memory_bytes or 0 for device in held), default=0),
                owners=len({occupant.owner_key for occupant in occupants}),
                seats=len(occupants),
            ),
            charge=self._charge(occupants),
        )

    def _check(
        self,
        claim: Claim,
        devices: Mapping[DeviceID, Device] | None,
        held: list[Device],
        occupants: list[Occupant],
    ) -> JoinCheck | None:
        """The first condition that the claim fails for every worker."""
        fault = _allocation_fault(claim)
        if fault is not None:
            return fault
        if devices is None:
            return JoinCheck.NODE_UNKNOWN
        if not held or held[0].memory_bytes is None:
            return JoinCheck.DEVICE_UNKNOWN
        if not self.seats:
            # An empty ledger is about to be deleted; a reservation of ours does not keep it.
            return JoinCheck.NO_SEATS
        if any(occupant.exclusive for occupant in occupants):
            return JoinCheck.EXCLUSIVE
        return JoinCheck.DEVICE_TAINTED if _tainted(held[0], claim.devices[0]) else None

    def _charge(self, occupants: list[Occupant]) -> HostResources:
        bound = {pod.worker_uid or pod.uid for pod in self.pods.values() if pod.node}
        charge = NO_ROOM
        for occupant in occupants:
            if occupant.worker_uid not in bound:
                charge = charge.plus(taken(occupant.host))
        return charge

    def __repr__(self) -> str:
        node = "unallocated" if self.claim is None or not self.claim.allocated else f"on {self.claim.node!r}"
        return (
            f"<ClaimState {self.name} {node}: {len(self.seats)} seats, {len(self.reserved)} reserved, "
            f"{len(self.pods)} Pods>"
        )


def _allocation_fault(claim: Claim) -> JoinCheck | None:
    if not claim.joinable:
        return JoinCheck.ENDING
    if any(row.admin_access for row in claim.devices):
        return JoinCheck.ADMIN_ACCESS
    return JoinCheck.NOT_ONE_DEVICE if len(claim.devices) != 1 else None


def _tainted(device: Device, row: AllocatedDevice) -> bool:
    """Whether the device repels new Pods: the claim's tolerations, copied at allocation, are what counts."""
    return untolerated(device.taints, row.tolerations)


def _by_seat(hold: SeatInfo) -> Occupant:
    return Occupant(hold.worker_uid, hold.owner_key, hold.exclusive, hold.host)


def _by_pod(pod: PodUse) -> Occupant:
    key = pod.worker_uid or pod.uid
    return Occupant(key, pod.owner_key or key, pod.exclusive, pod.requests)
