"""The fleet: nodes, devices, Pods, claims and seats, joined and indexed for placement decisions.

Events arrive one at a time, in any order (a seat before its claim, a Pod before its node), and may repeat.
Each updates only the entries that it affects. After every event all indexes agree with the facts. Queries
change no decision, so equal facts and an equal request give an equal result.

The fleet performs no I/O and sends no notifications. It holds the reservations of this process because
choosing and reserving are one step: `select` and `reserve`, without an `await` in between, never give a seat
or host memory to two workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from placement.claim_state import ClaimState, DerivedState
from placement.explain import explain_wait
from placement.host_resources import minimum_free, requested
from placement.inventory import IgnoredPool, Inventory
from placement.node_class import NodeClass
from placement.quantity import gib_ceil
from placement.seat_index import NodeInfo, SeatIndex
from placement.select import check_claim, check_place, check_size, select_seat
from placement.shape_catalog import ShapeCatalog
from placement.tolerations import untolerated
from placement.types import (
    NO_REFUSALS,
    Claim,
    Device,
    DeviceID,
    DeviceShape,
    DeviceSlice,
    Explanation,
    FreeDevice,
    JoinCheck,
    Node,
    PlacementRequest,
    PodUse,
    PreferredNode,
    Refusals,
    SeatInfo,
    SeatOffer,
)

MAX_NODES_CHECKED: Final = 100
"""Nodes of one profile on which a query looks for a free device."""


class Capacity(NamedTuple):
    """The total capacity, whether in use or free."""

    nodes: int
    """Enabled nodes that have devices."""
    devices: int
    """Devices with memory on these nodes."""
    ignored_pools: int
    """Device pools that do not count because they are incomplete or invalid."""


class Fleet:
    """The cluster state for the devices of one driver."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._inventory = Inventory(driver)
        self._catalog = ShapeCatalog()
        self._index = SeatIndex()
        self._nodes: dict[str, NodeInfo] = {}
        self._claims: dict[str, ClaimState] = {}
        self._claim_by_uid: dict[str, ClaimState] = {}
        self._pods: dict[str, PodUse] = {}

    # Nodes and inventory. These methods return whether the change may affect a decision.

    def set_node(self, node: Node) -> bool:
        """Add or update a node."""
        info = self._node(node.name)
        before = info.node
        if before == node:
            return False
        info.node = node
        self._refresh_node(info)
        return node.enabled or (before is not None and before.enabled)

    def remove_node(self, name: str) -> bool:
        """Remove a node. Its Pods and claims stay until they are removed themselves."""
        info = self._nodes.get(name)
        if info is None or info.node is None:
            return False
        enabled = info.node.enabled
        info.node = None
        self._refresh_node(info)
        self._drop_if_empty(info)
        return enabled

    def set_slice(self, slice_: DeviceSlice) -> bool:
        """Add or update a ResourceSlice. Slices of other drivers are ignored."""
        return self._refresh_devices(self._inventory.set_slice(slice_))

    def remove_slice(self, name: str) -> bool:
        """Remove a ResourceSlice."""
        return self._refresh_devices(self._inventory.remove_slice(name))

    # Pods, claims and seats.

    def set_pod(self, pod: PodUse) -> bool:
        """Add or update an unfinished Pod. Return whether this freed capacity."""
        return self._pods.get(pod.uid) != pod and self._replace_pod(pod.uid, pod)

    def remove_pod(self, uid: str) -> bool:
        """Remove a Pod that has finished or was deleted. Return whether this freed capacity."""
        return self._replace_pod(uid, None)

    def set_claim(self, claim: Claim) -> None:
        """Add or update a managed claim. It replaces a claim with the same name and another UID."""
        state = self._claim(claim.name)
        self._drop_uid(state)
        state.claim = claim
        self._claim_by_uid[claim.uid] = state
        self._refresh_claim(state)

    def remove_claim(self, name: str) -> None:
        """Remove a claim. Its seats and reservations stay until they are removed themselves."""
        state = self._claim(name)
        self._drop_uid(state)
        state.claim = None
        self._refresh_claim(state)

    def set_seats(self, claim_name: str, seats: tuple[SeatInfo, ...]) -> None:
        """Set the seats of a claim's ledger, none if it is deleted. Reservations among them are fulfilled."""
        state = self._claim(claim_name)
        state.set_seats(seats)
        self._refresh_claim(state)

    def reserve(self, claim_name: str, reservation: SeatInfo) -> None:
        """Count a booking as a seat until `set_seats` shows its assignment or worker, or it is cancelled.

        A worker has one reservation per claim, the latest.
        """
        state = self._claim(claim_name)
        state.reserve(reservation)
        self._refresh_claim(state)

    def cancel_reservation(self, claim_name: str, assignment_id: str) -> None:
        """Stop counting a failed booking. Does nothing if the reservation is fulfilled."""
        state = self._claim(claim_name)
        state.cancel_reservation(assignment_id)
        self._refresh_claim(state)

    # Queries.

    def select(self, request: PlacementRequest, refusals: Refusals = NO_REFUSALS) -> SeatOffer | None:
        """Return the best claim to join (contract §3, "Select a seat")."""
        self._index_demand(request)
        return select_seat(self._index, self._claims, self._nodes, request, refusals)

    def device_shapes(self, request: PlacementRequest) -> tuple[DeviceShape, ...]:
        """Return the shapes that a dedicated claim may request, tightest first."""
        self._index_demand(request)
        return self._catalog.shapes(request)

    def preferred_nodes(self, request: PlacementRequest) -> tuple[PreferredNode, ...]:
        """Return the weighted node preferences for the Pod of a dedicated claim."""
        self._index_demand(request)
        return self._catalog.preferred_nodes(request)

    def free_device(self, request: PlacementRequest) -> FreeDevice | None:
        """Return a device that kube-scheduler could allocate to the worker, as far as the fleet shows.

        Only a limited number of nodes of each profile is checked. None if none of them has such a device.
        """
        self._index_demand(request)
        least = minimum_free(request.host)
        found = (
            self._free_on(info, request)
            for info in (
                self._nodes[name] for name in self._catalog.fitting_nodes(request, MAX_NODES_CHECKED)
            )
            if info.matches(request.node_terms) and info.free.shortage(least) is None
        )
        return min((device for device in found if device is not None), default=None)

    def _free_on(self, info: NodeInfo, request: PlacementRequest) -> FreeDevice | None:
        held = {
            row.id for state in info.claims.values() if state.claim is not None for row in state.claim.devices
        }
        free: dict[int, list[DeviceID]] = {}
        for key, device in self._inventory.devices(info.name).items():
            # A part of a device may lack counters that another part draws.
            usable = device.counts and not device.draws and not untolerated(device.taints, ())
            memory_bytes = device.memory_bytes or 0
            fits = memory_bytes >= request.memory_bytes and device.accepted_by([request.attributes])
            if usable and fits and key not in held:
                free.setdefault(gib_ceil(memory_bytes), []).append(key)
        enough = [gib for gib, keys in free.items() if len(keys) >= request.device_count]
        if not enough:
            return None
        return FreeDevice(min(free[min(enough)]), DeviceShape(request.device_count, min(enough)))

    def explain(
        self, request: PlacementRequest, refusals: Refusals = NO_REFUSALS, refused_devices: str = ""
    ) -> Explanation:
        """Return why a worker without a seat or device waits (contract §3, "Explain").

        `refused_devices` states which free devices kube-scheduler refuses, if any.
        """
        self._index_demand(request)
        states = [self._claim_by_uid[uid] for uid in refusals.claims if uid in self._claim_by_uid]
        # A worker that may not book a seat now does not return to a node that refused it either.
        for name in refusals.nodes if refusals.may_join else refusals.counts:
            if name in self._nodes:
                states += self._nodes[name].claims.values()
        pairs = [(state, self._node_of(state)) for state in states]
        unmatched = bool(request.node_terms) and not all(
            info.matches(request.node_terms) for info in self._nodes.values() if info.node_class is not None
        )
        return explain_wait(
            self._catalog,
            self._index,
            request,
            pairs,
            unmatched=unmatched,
            unsupported=self.unsupported(),
            refused_devices=refused_devices,
        )

    def check(
        self, request: PlacementRequest, claim_name: str, refusals: Refusals = NO_REFUSALS
    ) -> JoinCheck | None:
        """Return the first condition that one claim fails, None if the worker can join it.

        To check a claim on which the worker has a reservation, cancel the reservation first and reserve again
        afterwards.
        """
        self._index_demand(request)
        state = self._claims.get(claim_name)
        if state is None:
            return JoinCheck.UNALLOCATED
        return check_claim(state, self._node_of(state), request, refusals)

    def check_place(self, request: PlacementRequest, claim_name: str) -> JoinCheck | None:
        """Return why an allocated claim cannot hold a Pod of this worker today, its own seat not counted."""
        self._index_demand(request)
        state = self._claims.get(claim_name)
        return None if state is None else check_place(state, self._node_of(state), request)

    def check_size(self, request: PlacementRequest, claim_name: str) -> JoinCheck | None:
        """Return why the devices of an allocated claim are not what this worker needs."""
        self._index_demand(request)
        state = self._claims.get(claim_name)
        return None if state is None else check_size(state, request)

    def ignored_pools(self) -> tuple[IgnoredPool, ...]:
        """Return the device pools that are ignored now. The caller logs each once."""
        return self._inventory.ignored_pools()

    def capacity(self) -> Capacity:
        """Return the total capacity. The cost grows with the distinct node profiles, not with the nodes."""
        ignored_pools = len(self._inventory.ignored_pools())
        return Capacity(self._catalog.node_count, self._catalog.device_count, ignored_pools)

    def unsupported(self) -> tuple[str, ...]:
        """Return the unsupported ways of publishing devices that the driver uses."""
        return self._inventory.unsupported()

    @property
    def has_multiple_allocations(self) -> bool:
        """Whether the driver publishes a device that several claims can hold at once."""
        return self._inventory.has_multiple_allocations

    # Propagation of an event: facts, then the derived state of claims, then the free resources of nodes.

    def _index_demand(self, request: PlacementRequest) -> None:
        """Distinguish devices by the attributes that a worker requires, from its first query on."""
        if request.attributes:
            self._refresh_devices(self._inventory.add_demand(request.attributes))

    def _refresh_devices(self, nodes: Iterable[str]) -> bool:
        infos = [self._nodes[name] for name in nodes if name in self._nodes]
        for info in infos:
            self._refresh_node(info)
        return any(info.node is not None and info.node.enabled for info in infos)

    def _refresh_node(self, info: NodeInfo) -> None:
        """Recompute a node's class, its shapes and every claim on it."""
        states = list(info.claims.values())
        for state in states:
            self._unindex(state)
        node = info.node
        counts = node is not None and node.enabled and self._inventory.has_valid_pool(info.name)
        info.node_class = NodeClass.of(node) if counts and node is not None else None
        self._catalog.set_node(info.name, info.node_class, self._inventory.sizes(info.name))
        devices = self._devices(info.name)
        for state in states:
            self._index_claim(state, state.derive(devices, self._inventory.demands))
        self._index.update_free(info)

    def _replace_pod(self, uid: str, after: PodUse | None) -> bool:
        """Replace a Pod. Return whether a node in use, or a claim, is less occupied than before."""
        before = self._pods.pop(uid, None)
        infos = [self._node(pod.node) for pod in (before, after) if pod is not None and pod.node]
        free = [info.free for info in infos if info.node_class is not None]
        states = {
            name: self._claim(name) for pod in (before, after) if pod is not None for name in pod.claims
        }
        derived = [state.derived for state in states.values()]
        if before is not None:
            self._count_pod(before, -1)
            for name in before.claims:
                states[name].pods.pop(uid, None)
        if after is not None:
            self._pods[uid] = after
            self._count_pod(after, 1)
            for name in after.claims:
                states[name].pods[uid] = after
        for state in states.values():
            self._refresh_claim(state)
        for info in infos:
            self._drop_if_empty(info)
        counted = [info.free for info in infos if info.node_class is not None]
        return any(new.exceeds(old) for new, old in zip(counted, free, strict=True)) or any(
            state.derived is not None and state.derived.is_less_occupied_than(old)
            for state, old in zip(states.values(), derived, strict=True)
        )

    def _count_pod(self, pod: PodUse, sign: int) -> None:
        """Add a bound Pod to its node's sums, or subtract it."""
        if not pod.node:
            return
        info = self._node(pod.node)
        info.pod_count += sign
        amounts = requested(pod.requests)
        info.pod_requests = info.pod_requests.plus(amounts) if sign > 0 else info.pod_requests.minus(amounts)
        self._index.update_free(info)

    def _refresh_claim(self, state: ClaimState) -> None:
        """Derive a claim's state again and update the indexes."""
        claim, before = state.claim, state.derived
        node = claim.node if claim is not None and claim.allocated else ""
        derived = state.derive(self._devices(node), self._inventory.demands)
        if derived != before:
            self._unindex(state)
            self._index_claim(state, derived)
            for changed in (before, derived):
                if changed is not None:
                    self._index.update_free(self._nodes[changed.node])
            if before is not None:
                self._drop_if_empty(self._nodes[before.node])
        if state.is_empty:
            del self._claims[state.name]

    def _index_claim(self, state: ClaimState, derived: DerivedState | None) -> None:
        """Add a claim to the indexes. The caller then updates the free resources of its node."""
        state.derived = derived
        if derived is not None:
            info = self._node(derived.node)
            info.claims[state.name] = state
            info.unbound_requests = info.unbound_requests.plus(derived.unbound_requests)
            self._index.add(info, state.name, derived)

    def _unindex(self, state: ClaimState) -> None:
        """Remove a claim from the indexes, with the derived state of the matching `_index_claim`."""
        derived, state.derived = state.derived, None
        if derived is not None:
            info = self._nodes[derived.node]
            self._index.remove(info, state.name, derived)
            info.unbound_requests = info.unbound_requests.minus(derived.unbound_requests)
            del info.claims[state.name]

    def _devices(self, node: str) -> Mapping[DeviceID, Device] | None:
        """Return the devices of a node, None if the node is ignored."""
        info = self._nodes.get(node)
        return None if info is None or info.node_class is None else self._inventory.devices(node)

    def _node(self, name: str) -> NodeInfo:
        return self._nodes.get(name) or self._nodes.setdefault(name, NodeInfo(name))

    def _node_of(self, state: ClaimState) -> NodeInfo | None:
        return None if state.derived is None else self._nodes[state.derived.node]

    def _drop_if_empty(self, info: NodeInfo) -> None:
        if info.is_empty:
            self._nodes.pop(info.name, None)

    def _claim(self, name: str) -> ClaimState:
        return self._claims.get(name) or self._claims.setdefault(name, ClaimState(name))

    def _drop_uid(self, state: ClaimState) -> None:
        if state.claim is not None and self._claim_by_uid.get(state.claim.uid) is state:
            del self._claim_by_uid[state.claim.uid]
