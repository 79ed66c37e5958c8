"""A slow reference implementation of the fleet: it stores the facts and computes every decision from scratch.

Its source is the contract, not `placement`. It shares only the types, the check names and the rule of a
single toleration.
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
    Refusals,
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
    requests: tuple[int, int, int]


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
            (name, reservation)
            for name, reservation in self.reservations
            if name != claim_name or not {reservation.worker_uid, reservation.assignment_id} & shown
        ]

    def reserve(self, claim_name: str, reservation: SeatInfo) -> None:
        if any(reservation.assignment_id == seat.assignment_id for seat in self.seats.get(claim_name, ())):
            return
        self.reservations = [
            (name, other)
            for name, other in self.reservations
            if (name, other.worker_uid) != (claim_name, reservation.worker_uid)
        ]
        self.reservations.append((claim_name, reservation))

    def cancel_reservation(self, claim_name: str, assignment_id: str) -> None:
        self.reservations = [
            (name, reservation)
            for name, reservation in self.reservations
            if (name, reservation.assignment_id) != (claim_name, assignment_id)
        ]

    # Inventory

    def pools(self, node: str) -> dict[str, dict[DeviceID, Device]]:
        """Return the complete and valid pools of a node."""
        known = [s for s in self.slices.values() if s.driver == self.driver and s.node]
        mine = [s for s in known if s.node == node]
        pools = {}
        for pool in {s.pool for s in mine} - {s.pool for s in known if s.node != node}:
            newest = max(s.generation for s in mine if s.pool == pool)
            current = [s for s in mine if s.pool == pool and s.generation == newest]
            names = [device.name for s in current for device in s.devices]
            if all(s.slice_count == len(current) for s in current) and len(names) == len(set(names)):
                pools[pool] = {
                    DeviceID(self.driver, pool, device.name): device
                    for s in sorted(current, key=lambda s: s.name)
                    for device in s.devices
                }
        return pools

    def is_counted(self, name: str) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.enabled and bool(self.pools(name))

    def device(self, node: str, device_id: DeviceID) -> Device | None:
        return self.pools(node).get(device_id.pool, {}).get(device_id)

    def sizes(self, node: str, request: PlacementRequest) -> list[int]:
        """Return the sizes of the node's devices that have the attributes of the request."""
        return [
            device.memory_bytes
            for pool in self.pools(node).values()
            for device in pool.values()
            if device.memory_bytes is not None
            and not device.multiple_allocations
            and has_attributes(device, request)
        ]

    # Occupants and free host resources

    def occupants(self, claim_name: str) -> list[Occupant]:
        occupants = [_from_seat(seat) for seat in self.seats.get(claim_name, ())]
        seated = {occupant.worker_uid for occupant in occupants}
        for name, reservation in self.reservations:
            if name == claim_name and reservation.worker_uid not in seated:
                seated.add(reservation.worker_uid)
                occupants.append(_from_seat(reservation))
        for uid in sorted(self.pods):
            pod = self.pods[uid]
            key = pod.worker_uid or pod.uid
            if claim_name in pod.claims and key not in seated:
                seated.add(key)
                requests = (pod.requests.memory_bytes or 0, pod.requests.cpu_millis, pod.requests.pods)
                occupants.append(Occupant(key, pod.owner_key or key, pod.exclusive, requests))
        return occupants

    def free(self, name: str) -> tuple[int, int, int] | None:
        """Return the free resources of a node. The memory is meaningless if the node reports none."""
        node = self.nodes.get(name)
        if node is None:
            return None
        requests = [
            (pod.requests.memory_bytes or 0, pod.requests.cpu_millis, pod.requests.pods)
            for pod in self.pods.values()
            if pod.node == name
        ]
        for claim in self.claims.values():
            if claim.allocated and claim.node == name:
                requests += [self.unbound_requests(o, claim.name) for o in self.occupants(claim.name)]
        capacity = (node.allocatable.memory_bytes or 0, node.allocatable.cpu_millis, node.allocatable.pods)
        memory, cpu, pods = (
            total - sum(column)
            for total, column in zip(
                capacity, zip(*requests, strict=True) if requests else ((), (), ()), strict=True
            )
        )
        return memory, cpu, pods

    def unbound_requests(self, occupant: Occupant, claim_name: str) -> tuple[int, int, int]:
        """Return the requests of the occupant's unbound Pod, those of its seat if it has no Pod."""
        pods = [
            pod
            for pod in self.pods.values()
            if claim_name in pod.claims and (pod.worker_uid or pod.uid) == occupant.worker_uid
        ]
        if any(pod.node for pod in pods):
            return 0, 0, 0
        if not pods:
            return occupant.requests
        host = max(pods, key=lambda pod: pod.uid).requests
        return host.memory_bytes or 0, host.cpu_millis, host.pods

    # Decisions

    def check(self, request: PlacementRequest, claim: Claim, refusals: Refusals) -> JoinCheck | None:
        if not request.shareable:
            return JoinCheck.NOT_SHAREABLE
        check = self.claim_check(claim) or self.node_check(request, self.nodes[claim.node])
        if check is not None:
            return check
        device = self.device(claim.node, claim.devices[0].id)
        occupants = self.occupants(claim.name)
        assert device is not None
        assert device.memory_bytes is not None
        if device.memory_bytes < request.memory_bytes:
            return JoinCheck.DEVICE_TOO_SMALL
        if not has_attributes(device, request):
            return JoinCheck.DEVICE_DIFFERS
        if len(occupants) >= request.seat_limit:
            return JoinCheck.SEAT_LIMIT
        shortage = self.shortage(self.nodes[claim.node], request)
        if shortage is not None:
            return shortage
        if request.worker_uid in {occupant.worker_uid for occupant in occupants}:
            return JoinCheck.ALREADY_SEATED
        is_refused = claim.uid in refusals.claims or claim.node in refusals.nodes
        return JoinCheck.REFUSED if is_refused else None

    def claim_check(self, claim: Claim) -> JoinCheck | None:
        device = self.device(claim.node, claim.devices[0].id) if claim.devices else None
        failures = {
            JoinCheck.UNALLOCATED: not claim.allocated,
            JoinCheck.NODE_UNKNOWN: not claim.node,
            JoinCheck.ENDING: not claim.joinable,
            JoinCheck.ADMIN_ACCESS: any(row.admin_access for row in claim.devices),
            JoinCheck.NOT_ONE_DEVICE: len(claim.devices) != 1,
        }
        later_failures = {
            JoinCheck.DEVICE_UNKNOWN: device is None or device.memory_bytes is None,
            JoinCheck.MULTIPLE_ALLOCATIONS: device is not None and device.multiple_allocations,
            JoinCheck.NO_SEATS: not self.seats.get(claim.name),
            JoinCheck.EXCLUSIVE: any(occupant.exclusive for occupant in self.occupants(claim.name)),
            JoinCheck.DEVICE_TAINTED: device is not None
            and is_untolerated(device.taints, claim.devices[0].tolerations),
        }
        first = next((check for check, fails in failures.items() if fails), None)
        if first is None and not self.is_counted(claim.node):
            first = JoinCheck.NODE_UNKNOWN
        return first or next((check for check, fails in later_failures.items() if fails), None)

    def node_check(self, request: PlacementRequest, node: Node) -> JoinCheck | None:
        if not accepts(node, request.role):
            return JoinCheck.ROLE_REFUSED
        if not node.ready:
            return JoinCheck.NODE_NOT_READY
        if node.cordoned:
            return JoinCheck.NODE_CORDONED
        return JoinCheck.NODE_TAINTED if is_untolerated(node.taints, request.tolerations) else None

    def shortage(self, node: Node, request: PlacementRequest) -> JoinCheck | None:
        free = self.free(node.name)
        assert free is not None
        wanted = request.host.memory_bytes or 0
        if node.allocatable.memory_bytes is not None and wanted and wanted > free[0]:
            return JoinCheck.HOST_MEMORY
        if request.host.cpu_millis and request.host.cpu_millis > free[1]:
            return JoinCheck.HOST_CPU
        return JoinCheck.HOST_PODS if request.host.pods > free[2] else None

    def join_checks(self, request: PlacementRequest, refusals: Refusals) -> dict[str, JoinCheck | None]:
        return {name: self.check(request, self.claims[name], refusals) for name in sorted(self.claims)}

    def select(self, request: PlacementRequest, refusals: Refusals) -> SeatOffer | None:
        ranked = []
        for name, claim in self.claims.items():
            if self.check(request, claim, refusals) is None:
                device = self.device(claim.node, claim.devices[0].id)
                assert device is not None
                occupants = self.occupants(name)
                owners = {occupant.owner for occupant in occupants}
                count = refusals.counts.get(claim.node, 0)
                ranked.append((count, device.memory_bytes, len(owners), len(occupants), name))
        if not ranked:
            return None
        best = self.claims[min(ranked)[-1]]
        return SeatOffer(best.name, best.uid, best.node)

    def node_sizes(self, name: str, request: PlacementRequest) -> set[int]:
        """Return the device sizes, in GiB, of which the node has enough devices for the request."""
        if not self.is_counted(name) or not accepts(self.nodes[name], request.role):
            return set()
        fitting = [-(-size // GIB) for size in self.sizes(name, request) if size >= request.memory_bytes]
        return {gib for gib in fitting if fitting.count(gib) >= request.device_count}

    def device_shapes(self, request: PlacementRequest) -> tuple[DeviceShape, ...]:
        sizes = sorted({gib for name in self.nodes for gib in self.node_sizes(name, request)})
        shapes = [DeviceShape(request.device_count, gib) for gib in sizes]
        if len(shapes) <= 8:
            return tuple(shapes)
        return (*shapes[:7], DeviceShape(request.device_count, sizes[7], open_upwards=True))

    def preferred_nodes(self, request: PlacementRequest) -> tuple[PreferredNode, ...]:
        shapes = self.device_shapes(request)
        preferred = []
        for position, shape in enumerate(shapes[:-1]):
            weight = 100 - 100 * position // (len(shapes) - 1)
            preferred += [
                PreferredNode(name, weight)
                for name in sorted(self.nodes)
                if min(self.node_sizes(name, request), default=0) == shape.gib
            ]
        return tuple(preferred[:100])


def has_attributes(device: Device, request: PlacementRequest) -> bool:
    values = dict(device.attributes)
    return all(values.get(name) in accepted for name, accepted in request.attributes)


def accepts(node: Node, role: Role) -> bool:
    return role in node.roles


def is_untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    blocking = [t for t in taints if t.effect in {TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE}]
    return any(all(not tolerates(toleration, taint) for toleration in tolerations) for taint in blocking)


def _from_seat(seat: SeatInfo) -> Occupant:
    requests = (seat.host.memory_bytes or 0, seat.host.cpu_millis, seat.host.pods)
    return Occupant(seat.worker_uid, seat.owner_key, seat.exclusive, requests)
