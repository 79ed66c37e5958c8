"""The picture that decisions are made from: nodes, devices, Pods, claims and seats, joined and indexed.

Events arrive one at a time, in any order (a seat before its claim, a Pod before its node) and any number of
times; each touches what it concerns and nothing is ever rebuilt. After every event all indexes agree with the
facts given so far. Questions only read, so the same picture and request give the same answer.

What the fleet does not do: it reads no Kubernetes objects, waits for nothing and tells nobody. It knows
bookings under way (`reserve`) because choosing and reserving are one step: `select` and `reserve` without an
`await` in between never hand out a seat, or a byte of host memory, twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from placement.claim_state import ClaimState, DerivedState
from placement.explain import explain_wait
from placement.host_resources import taken
from placement.inventory import IncompletePool, Inventory
from placement.node_class import NodeClass
from placement.seat_index import NodeInfo, SeatIndex
from placement.select import check_claim, select_seat
from placement.shape_catalog import ShapeCatalog
from placement.types import (
    Claim,
    Device,
    DeviceID,
    DeviceShape,
    DeviceSlice,
    Explanation,
    JoinCheck,
    Node,
    PlacementRequest,
    PodUse,
    PreferredNode,
    SeatInfo,
    SeatOffer,
)


class FleetStatistics(NamedTuple):
    """Sizes of a `Fleet`, in objects."""

    nodes: int
    """Nodes that count: enabled, with a complete pool."""
    pods: int
    claims: int
    seats: int
    reservations: int


class Capacity(NamedTuple):
    """What there is to place on, taken or not."""

    nodes: int
    """Enabled nodes that have devices."""
    devices: int
    """Devices with memory on them."""
    incomplete_pools: int
    """Device pools that are left out, for want of slices."""


class Fleet:
    """Everything that placement knows about a cluster, for the devices of one driver."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._inventory = Inventory(driver)
        self._catalog = ShapeCatalog()
        self._index = SeatIndex()
        self._sites: dict[str, NodeInfo] = {}
        self._claims: dict[str, ClaimState] = {}
        self._claim_by_uid: dict[str, ClaimState] = {}
        self._pods: dict[str, PodUse] = {}

    # Events: nodes and inventory. The answer says whether anything changed that decisions depend on.

    def set_node(self, node: Node) -> bool:
        """Take a node as it is now."""
        site = self._site(node.name)
        before = site.node
        if before == node:
            return False
        site.node = node
        self._reclassify(site)
        return node.enabled or (before is not None and before.enabled)

    def remove_node(self, name: str) -> bool:
        """Forget a node. Pods and claims on it stay until they go themselves."""
        site = self._sites.get(name)
        if site is None or site.node is None:
            return False
        enabled = site.node.enabled
        site.node = None
        self._reclassify(site)
        self._drop_if_vacant(site)
        return enabled

    def set_slice(self, slice_: DeviceSlice) -> bool:
        """Take a ResourceSlice as it is now; other drivers' slices are ignored."""
        return self._follow_devices(self._inventory.set_slice(slice_))

    def remove_slice(self, name: str) -> bool:
        """Forget a ResourceSlice."""
        return self._follow_devices(self._inventory.remove_slice(name))

    # Events: Pods, claims, seats.

    def set_pod(self, pod: PodUse) -> None:
        """Take an unfinished Pod as it is now."""
        before = self._pods.get(pod.uid)
        if before == pod:
            return
        self._pods[pod.uid] = pod
        self._replace_pod(before, pod)

    def remove_pod(self, uid: str) -> None:
        """Forget a Pod that has finished or is gone."""
        before = self._pods.pop(uid, None)
        if before is not None:
            self._replace_pod(before, None)

    def set_claim(self, claim: Claim) -> None:
        """Take a managed claim as it is now. One of another UID takes the place of its namesake."""
        state = self._claim(claim.name)
        self._forget_uid(state)
        state.claim = claim
        self._claim_by_uid[claim.uid] = state
        self._settle(state)

    def remove_claim(self, name: str) -> None:
        """Forget a claim. Its seats and reservations stay until they go themselves."""
        state = self._claims.get(name)
        if state is not None:
            self._forget_uid(state)
            state.claim = None
            self._settle(state)

    def set_seats(self, claim_name: str, seats: tuple[SeatInfo, ...]) -> None:
        """Take the seats of a claim's ledger as they are now; reservations among them are fulfilled."""
        state = self._claim(claim_name)
        state.show_seats(seats)
        self._settle(state)

    def remove_seats(self, claim_name: str) -> None:
        """Forget a ledger that is gone."""
        state = self._claims.get(claim_name)
        if state is not None:
            state.show_seats(())
            self._settle(state)

    def reserve(self, claim_name: str, hold: SeatInfo) -> None:
        """Count a booking as a seat from now on, until `set_seats` shows it or it is cancelled.

        It is shown by its assignment ID or by its worker's UID. A worker has one reservation on a claim: the
        latest.
        """
        state = self._claim(claim_name)
        state.reserve(hold)
        self._settle(state)

    def cancel_reservation(self, claim_name: str, assignment_id: str) -> None:
        """Stop counting a booking that failed; nothing happens if it was fulfilled."""
        state = self._claims.get(claim_name)
        if state is not None:
            state.cancel(assignment_id)
            self._settle(state)

    # Questions.

    def select(self, request: PlacementRequest, refused: Collection[str] = ()) -> SeatOffer | None:
        """The best claim to join now (contract §3). `refused`: UIDs of claims to leave out."""
        return select_seat(self._index, self._claims, request, refused)

    def device_shapes(self, request: PlacementRequest) -> tuple[DeviceShape, ...]:
        """The shapes that a dedicated claim may take, tightest first; empty where none exists."""
        return self._catalog.tiers(request)

    def preferred_nodes(self, request: PlacementRequest) -> tuple[PreferredNode, ...]:
        """The weighted node preferences of the Pod of a dedicated claim."""
        return self._catalog.preferred_nodes(request)

    def explain(self, request: PlacementRequest, refused: Collection[str] = ()) -> Explanation:
        """Why a worker that nothing took waits (contract §3, "Explain")."""
        states = [self._claim_by_uid[uid] for uid in refused if uid in self._claim_by_uid]
        pairs = [(state, self._site_of(state)) for state in states]
        return explain_wait(self._catalog, self._index, request, pairs)

    def check(
        self, request: PlacementRequest, claim_name: str, refused: Collection[str] = ()
    ) -> JoinCheck | None:
        """The first condition that one claim fails, None where it can be joined.

        To look again at a claim on which the worker has a reservation, cancel that first and make it anew.
        """
        state = self._claims.get(claim_name)
        if state is None:
            return JoinCheck.UNALLOCATED
        return check_claim(state, self._site_of(state), request, refused)

    def incomplete_pools(self) -> tuple[IncompletePool, ...]:
        """The device pools that are left out until they are complete, for the caller to log each once."""
        return self._inventory.incomplete_pools()

    def capacity(self) -> Capacity:
        """What there is to place on; costs the number of different nodes, not of nodes."""
        catalog = self._catalog.statistics()
        return Capacity(catalog.nodes, catalog.devices, self._inventory.statistics().incomplete_pools)

    def statistics(self) -> FleetStatistics:
        """Sizes, for metrics and `repr`. Walks the fleet."""
        return FleetStatistics(
            nodes=sum(site.node_class is not None for site in self._sites.values()),
            pods=len(self._pods),
            claims=sum(state.claim is not None for state in self._claims.values()),
            seats=sum(len(state.seats) for state in self._claims.values()),
            reservations=sum(len(state.reserved) for state in self._claims.values()),
        )

    def __repr__(self) -> str:
        nodes, pods, claims, seats, reservations = self.statistics()
        return (
            f"<Fleet {self._driver}: {nodes} nodes, {pods} Pods, {claims} claims, "
            f"{seats} seats, {reservations} reservations>"
        )

    # How an event spreads: facts, then the standings of the claims concerned, then the room of their nodes.

    def _follow_devices(self, nodes: Iterable[str]) -> bool:
        sites = [self._sites[name] for name in nodes if name in self._sites]
        for site in sites:
            self._reclassify(site)
        return any(site.node is not None and site.node.enabled for site in sites)

    def _reclassify(self, site: NodeInfo) -> None:
        """Follow a change of the node or of its devices: its class, its shapes, every claim on it."""
        residents = list(site.claims.values())
        for state in residents:
            self._withdraw(state)
        node = site.node
        counts = node is not None and node.enabled and self._inventory.has_complete_pool(site.name)
        site.node_class = NodeClass.of(node) if counts and node is not None else None
        self._catalog.set_node(site.name, site.node_class, self._inventory.sizes(site.name))
        devices = self._devices(site.name)
        for state in residents:
            self._enter(state, state.derive(devices))
        self._index.follow_room(site)

    def _replace_pod(self, before: PodUse | None, after: PodUse | None) -> None:
        touched: dict[str, ClaimState] = {}
        for name in before.claims if before is not None else ():
            touched[name] = self._claim(name)
        for name in after.claims if after is not None else ():
            touched[name] = self._claim(name)
        if before is not None:
            self._count_pod(before, -1)
            for name in before.claims:
                touched[name].pods.pop(before.uid, None)
        if after is not None:
            self._count_pod(after, 1)
            for name in after.claims:
                touched[name].pods[after.uid] = after
        for state in touched.values():
            self._settle(state)

    def _count_pod(self, pod: PodUse, sign: int) -> None:
        """Add a bound Pod to its node's sums, or take it out."""
        if not pod.node:
            return
        site = self._site(pod.node)
        site.pods += sign
        amounts = taken(pod.requests)
        site.pods_taken = site.pods_taken.plus(amounts) if sign > 0 else site.pods_taken.minus(amounts)
        self._index.follow_room(site)
        self._drop_if_vacant(site)

    def _settle(self, state: ClaimState) -> None:
        """Derive a claim's standing again and let the indexes follow."""
        claim, before = state.claim, state.standing
        node = claim.node if claim is not None and claim.allocated else ""
        standing = state.derive(self._devices(node))
        if standing != before:
            self._withdraw(state)
            self._enter(state, standing)
            for moved in (before, standing):
                if moved is not None:
                    self._index.follow_room(self._sites[moved.node])
            if before is not None:
                self._drop_if_vacant(self._sites[before.node])
        if state.vacant:
            del self._claims[state.name]

    def _enter(self, state: ClaimState, standing: DerivedState | None) -> None:
        """Put a claim that is in no index in; the caller then lets the index follow the site's room."""
        state.standing = standing
        if standing is not None:
            site = self._site(standing.node)
            site.claims[state.name] = state
            site.charged = site.charged.plus(standing.charge)
            self._index.enter(site, state.name, standing)

    def _withdraw(self, state: ClaimState) -> None:
        """Take a claim out, with the standing that it is in with; the counterpart of `_enter`."""
        standing, state.standing = state.standing, None
        if standing is not None:
            site = self._sites[standing.node]
            self._index.leave(site, state.name, standing)
            site.charged = site.charged.minus(standing.charge)
            del site.claims[state.name]

    def _devices(self, node: str) -> Mapping[DeviceID, Device] | None:
        """The devices of a node, None for one that does not count."""
        site = self._sites.get(node)
        return None if site is None or site.node_class is None else self._inventory.devices(node)

    def _site(self, name: str) -> NodeInfo:
        site = self._sites.get(name)
        if site is None:
            site = self._sites[name] = NodeInfo(name)
        return site

    def _site_of(self, state: ClaimState) -> NodeInfo | None:
        return None if state.standing is None else self._sites[state.standing.node]

    def _drop_if_vacant(self, site: NodeInfo) -> None:
        if site.vacant:
            self._sites.pop(site.name, None)

    def _claim(self, name: str) -> ClaimState:
        state = self._claims.get(name)
        if state is None:
            state = self._claims[name] = ClaimState(name)
        return state

    def _forget_uid(self, state: ClaimState) -> None:
        if state.claim is not None and self._claim_by_uid.get(state.claim.uid) is state:
            del self._claim_by_uid[state.claim.uid]
