"""The same picture and decisions in the slowest and plainest way: keep the facts, compute everything anew.

Written from the contract, not from `placement`: it shares nothing with it but the types, the names of the
checks and the rule of a single toleration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from placement.tolerations import tolerates
from placement.types import (
    GIB,
    Claim,
    Device,
    DeviceID,
    DeviceShape,
    DeviceSlice,
    JoinCheck,
    Node,
    PlacementRequest,
    PodUse,
    PreferredNode,
    Role,
    SeatInfo,
    SeatOffer,
    Taint,
    TaintEffect,
    Toleration,
)


@dataclass
class Occupant:
    worker_uid: str
    owner: str
    exclusive: bool
    cost: tuple[int, int, int]


@dataclass
class ReferenceFleet:
    driver: str
    nodes: dict[str, Node] = field(default_factory=dict)
    slices: dict[str, DeviceSlice] = field(default_factory=dict)
    pods: dict[str, PodUse] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    seats: dict[str, tuple[SeatInfo, ...]] = field(default_factory=dict)
    reservations: list[tuple[str, SeatInfo]] = field(default_factory=list)

    # Events

    def set_node(self, node: Node) -> None:
        self.nodes[node.name] = node

    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)

    def set_slice(self, slice_: DeviceSlice) -> None:
        self.slices[slice_.name] = slice_

    def remove_slice(self, name: str) -> None:
        self.slices.pop(name, None)

    def set_pod(self, pod: PodUse) -> None:
        self.pods[pod.uid] = pod

    def remove_pod(self, uid: str) -> None:
        self.pods.pop(uid, None)

    def set_claim(self, claim: Claim) -> None:
        self.claims[claim.name] = claim

    def remove_claim(self, name: str) -> None:
        self.claims.pop(name, None)

    def set_seats(self, claim_name: str, seats: tuple[SeatInfo, ...]) -> None:
        self.seats[claim_name] = seats
        shown = {seat.worker_uid for seat in seats} | {seat.assignment_id for seat in seats}
        self.reservations = [
            (name, hold)
            for name, hold in self.reservations
            if name != claim_name or not {hold.worker_uid, hold.assignment_id} & shown
        ]

    def remove_seats(self, claim_name: str) -> None:
        self.seats.pop(claim_name, None)

    def reserve(self, claim_name: str, hold: SeatInfo) -> None:
        if any(hold.assignment_id == seat.assignment_id for seat in self.seats.get(claim_name, ())):
            return
        self.reservations = [
            (name, other)
            for name, other in self.reservations
            if (name, other.worker_uid) != (claim_name, hold.worker_uid)
        ]
        self.reservations.append((claim_name, hold))

    def cancel_reservation(self, claim_name: str, assignment_id: str) -> None:
        self.reservations = [
            (name, hold)
            for name, hold in self.reservations
            if (name, hold.assignment_id) != (claim_name, assignment_id)
        ]

    # Inventory

    def pools(self, node: str) -> dict[str, dict[DeviceID, Device]]:
        """The complete pools of a node."""
        mine = [s for s in self.slices.values() if s.driver == self.driver and s.node == node and node]
        pools = {}
        for pool in {s.pool for s in mine}:
            newest = max(s.generation for s in mine if s.pool == pool)
            current = [s for s in mine if s.pool == pool and s.generation == newest]
            if all(s.slice_count == len(current) for s in current):
                pools[pool] = {
                    DeviceID(self.driver, pool, device.name): device
                    for s in sorted(current, key=lambda s: s.name)
                    for device in s.devices
                }
        return pools

    def counts(self, name: str) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.enabled and bool(self.pools(name))

    def device(self, node: str, device_id: DeviceID) -> Device | None:
        return self.pools(node).get(device_id.pool, {}).get(device_id)

    def sizes(self, node: str) -> list[int]:
        devices = [device for pool in self.pools(node).values() for device in pool.values()]
        return [device.memory_bytes for device in devices if device.memory_bytes is not None]

    # Occupancy and host resources

    def occupants(self, claim_name: str) -> list[Occupant]:
        found = [_from_seat(seat) for seat in self.seats.get(claim_name, ())]
        seated = {occupant.worker_uid for occupant in found}
        for name, hold in self.reservations:
            if name == claim_name and hold.worker_uid not in seated:
                seated.add(hold.worker_uid)
                found.append(_from_seat(hold))
        for uid in sorted(self.pods):
            pod = self.pods[uid]
            key = pod.worker_uid or pod.uid
            if claim_name in pod.claims and key not in seated:
                seated.add(key)
                cost = (pod.requests.memory_bytes or 0, pod.requests.cpu_millis, pod.requests.pods)
                found.append(Occupant(key, pod.owner_key or key, pod.exclusive, cost))
        return found

    def room(self, name: str) -> tuple[int, int, int] | None:
        """What is left; the first component says nothing where the node reports no memory."""
        node = self.nodes.get(name)
        if node is None:
            return None
        costs = [
            (pod.requests.memory_bytes or 0, pod.requests.cpu_millis, pod.requests.pods)
            for pod in self.pods.values()
            if pod.node == name
        ]
        for claim in self.claims.values():
            if claim.allocated and claim.node == name:
                costs += [o.cost for o in self.occupants(claim.name) if not self.is_bound(o, claim.name)]
        given = (node.allocatable.memory_bytes or 0, node.allocatable.cpu_millis, node.allocatable.pods)
        memory, cpu, pods = (
            total - sum(column)
            for total, column in zip(given, zip(*costs, strict=True) if costs else ((), (), ()), strict=True)
        )
        return memory, cpu, pods

    def is_bound(self, occupant: Occupant, claim_name: str) -> bool:
        return any(
            pod.node and claim_name in pod.claims and (pod.worker_uid or pod.uid) == occupant.worker_uid
            for pod in self.pods.values()
        )

    # Decisions

    def check(self, request: PlacementRequest, claim: Claim, refused: frozenset[str]) -> JoinCheck | None:
        if not request.shareable:
            return JoinCheck.NOT_SHAREABLE
        fault = self.claim_fault(claim) or self.node_fault(request, self.nodes[claim.node])
        if fault is not None:
            return fault
        device = self.device(claim.node, claim.devices[0].id)
        occupants = self.occupants(claim.name)
        assert device is not None
        assert device.memory_bytes is not None
        if device.memory_bytes < request.memory_bytes:
            return JoinCheck.DEVICE_TOO_SMALL
        if len(occupants) >= request.seat_limit:
            return JoinCheck.SEAT_LIMIT
        shortage = self.shortage(self.nodes[claim.node], request)
        if shortage is not None:
            return shortage
        if request.worker_uid in {occupant.worker_uid for occupant in occupants}:
            return JoinCheck.ALREADY_SEATED
        return JoinCheck.REFUSED if claim.uid in refused else None

    def claim_fault(self, claim: Claim) -> JoinCheck | None:
        device = self.device(claim.node, claim.devices[0].id) if claim.devices else None
        faults = {
            JoinCheck.UNALLOCATED: not claim.allocated,
            JoinCheck.NODE_UNKNOWN: not claim.node,
            JoinCheck.ENDING: not claim.joinable,
            JoinCheck.ADMIN_ACCESS: any(row.admin_access for row in claim.devices),
            JoinCheck.NOT_ONE_DEVICE: len(claim.devices) != 1,
        }
        later_faults = {
            JoinCheck.DEVICE_UNKNOWN: device is None or device.memory_bytes is None,
            JoinCheck.NO_SEATS: not self.seats.get(claim.name),
            JoinCheck.EXCLUSIVE: any(occupant.exclusive for occupant in self.occupants(claim.name)),
            JoinCheck.DEVICE_TAINTED: device is not None
            and repels(device.taints, claim.devices[0].tolerations),
        }
        first = next((check for check, fails in faults.items() if fails), None)
        if first is None and not self.counts(claim.node):
            first = JoinCheck.NODE_UNKNOWN
        return first or next((check for check, fails in later_faults.items() if fails), None)

    def node_fault(self, request: PlacementRequest, node: Node) -> JoinCheck | None:
        if not accepts(node, request.role):
            return JoinCheck.ROLE_REFUSED
        if not node.ready:
            return JoinCheck.NODE_NOT_READY
        if node.cordoned:
            return JoinCheck.NODE_CORDONED
        return JoinCheck.NODE_TAINTED if repels(node.taints, request.tolerations) else None

    def shortage(self, node: Node, request: PlacementRequest) -> JoinCheck | None:
        room = self.room(node.name)
        assert room is not None
        wanted = request.host.memory_bytes or 0
        if node.allocatable.memory_bytes is not None and wanted and wanted > room[0]:
            return JoinCheck.HOST_MEMORY
        if request.host.cpu_millis and request.host.cpu_millis > room[1]:
            return JoinCheck.HOST_CPU
        return JoinCheck.HOST_PODS if request.host.pods > room[2] else None

    def candidates(self, request: PlacementRequest, refused: frozenset[str]) -> dict[str, JoinCheck | None]:
        return {name: self.check(request, self.claims[name], refused) for name in sorted(self.claims)}

    def select(self, request: PlacementRequest, refused: frozenset[str]) -> SeatOffer | None:
        ranked = []
        for name, claim in self.claims.items():
            if self.check(request, claim, refused) is None:
                device = self.device(claim.node, claim.devices[0].id)
                assert device is not None
                occupants = self.occupants(name)
                owners = {occupant.owner for occupant in occupants}
                ranked.append((device.memory_bytes, len(owners), len(occupants), name))
        if not ranked:
            return None
        best = self.claims[min(ranked)[-1]]
        return SeatOffer(best.name, best.uid, best.node)

    def node_shapes(self, name: str, request: PlacementRequest) -> set[int]:
        """The shapes, in GiB, of which the node has enough devices that hold the request."""
        if not self.counts(name) or not accepts(self.nodes[name], request.role):
            return set()
        fitting = [-(-size // GIB) for size in self.sizes(name) if size >= request.memory_bytes]
        return {gib for gib in fitting if fitting.count(gib) >= request.device_count}

    def tiers(self, request: PlacementRequest) -> tuple[DeviceShape, ...]:
        shapes = sorted({gib for name in self.nodes for gib in self.node_shapes(name, request)})
        tiers = [DeviceShape(request.device_count, gib) for gib in shapes]
        if len(tiers) <= 8:
            return tuple(tiers)
        return (*tiers[:7], DeviceShape(request.device_count, shapes[7], open_upwards=True))

    def preferred_nodes(self, request: PlacementRequest) -> tuple[PreferredNode, ...]:
        tiers = self.tiers(request)
        preferred = []
        for position, tier in enumerate(tiers[:-1]):
            weight = 100 - 100 * position // (len(tiers) - 1)
            preferred += [
                PreferredNode(name, weight)
                for name in sorted(self.nodes)
                if min(self.node_shapes(name, request), default=0) == tier.gib
            ]
        return tuple(preferred[:100])


def accepts(node: Node, role: Role) -> bool:
    return role in node.roles


def repels(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    blocking = [t for t in taints if t.effect in {TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE}]
    return any(all(not tolerates(toleration, taint) for toleration in tolerations) for taint in blocking)


def _from_seat(hold: SeatInfo) -> Occupant:
    cost = (hold.host.memory_bytes or 0, hold.host.cpu_millis, hold.host.pods)
    return Occupant(hold.worker_uid, hold.owner_key, hold.exclusive, cost)
