"""Keeps placement's picture of the fleet equal to the caches, event by event.

Inline handlers translate each object as it enters or leaves a cache; the fleet therefore never lags behind
what a reconcile reads, but for a long list that is being told (see `informers.cache.store`). What frees or
adds capacity is announced through `on_inventory` and `on_capacity_freed`.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.api import convert
from controller.api.core import Node
from controller.api.dra import ResourceClaim, ResourceSlice
from controller.api.pods import AnyPod, ForeignPod
from controller.api.requests import PlacementRequests
from controller.api.workload import Workload
from controller.cluster.caches import BY_WORKER, Caches, controlling_workload
from controller.runtime import logs
from informers.api import ObjectKey
from ledger.names import is_claim_name, ledger_name
from ledger.state import ClaimLedger, Seat
from placement.fleet import Fleet
from placement.types import PodUse, SeatInfo

_log = logs.get_logger(__name__)


def _nothing() -> None:
    """Nobody listens yet."""


class FleetUpdater:
    """Feeds one `Fleet` from the caches of the controller."""

    def __init__(self, caches: Caches, fleet: Fleet, requests: PlacementRequests, namespace: str) -> None:
        self._caches = caches
        self._requests = requests
        self._namespace = namespace
        self.fleet = fleet
        self._gaps: frozenset[tuple[str, str, int]] = frozenset()
        self.on_inventory: Callable[[], None] = _nothing
        """Called after nodes or devices changed in a way that decisions depend on."""
        self.on_capacity_freed: Callable[[], None] = _nothing
        """Called after a Pod gave back what it held of a node."""

    def __repr__(self) -> str:
        return f"<Picture of {self.fleet!r}>"

    def connect(self) -> None:
        """Subscribe to the caches, before anybody who reads the fleet does."""
        self._caches.workloads.add_handler(_WorkloadFeed(self), inline=True)
        self._caches.nodes.add_handler(_NodeFeed(self), inline=True)
        self._caches.slices.add_handler(_SliceFeed(self), inline=True)
        self._caches.pods.add_handler(_PodFeed(self), inline=True)
        self._caches.claims.add_handler(_ClaimFeed(self), inline=True)
        self._caches.ledgers.add_handler(_LedgerFeed(self), inline=True)

    def announce(self, changed: bool) -> None:
        """Tell the listener about a change of the inventory that decisions depend on."""
        if changed:
            self.on_inventory()
            self._report_gaps()

    def _report_gaps(self) -> None:
        """Name each pool that is left out because slices of it are missing, once per generation."""
        gaps = {(gap.node, gap.pool, gap.generation): gap for gap in self.fleet.incomplete_pools()}
        for key, gap in gaps.items():
            if key not in self._gaps:
                _log.warning(
                    "Left out an incomplete device pool",
                    node=gap.node,
                    pool=gap.pool,
                    generation=gap.generation,
                    slices_present=gap.slices_present,
                    slices_expected=gap.slices_expected,
                )
        self._gaps = frozenset(gaps)

    def claim_changed(self, claim: ResourceClaim) -> None:
        """Take a claim in, with what its ledger says about who owns it. Merely labelled ones are not ours."""
        name = claim.metadata.name
        if is_claim_name(name):
            ledger = self._caches.ledgers.store.get(ObjectKey(self._namespace, ledger_name(name)))
            self.fleet.set_claim(convert.claim(claim, ledger.metadata.uid if ledger else ""))

    def ledger_changed(self, ledger: ClaimLedger) -> None:
        """Take in the seats, and look again at the claim: it may have found or lost its owner."""
        self.fleet.set_seats(ledger.claim_name, tuple(self._hold(seat) for seat in ledger.seats))
        self._review_claim(ledger.claim_name)

    def ledger_gone(self, ledger: ClaimLedger) -> None:
        """The seats are gone, and the claim is dying."""
        self.fleet.remove_seats(ledger.claim_name)
        self._review_claim(ledger.claim_name)

    def workload_came(self, workload: Workload) -> None:
        """What its seats cost the host beyond memory, and what its Pods count for, is known from now on."""
        for ledger in self._caches.ledgers.store.by_index(BY_WORKER, workload.uid):
            self.ledger_changed(ledger)
        for pod in self._caches.pods_of(workload.uid):
            if not pod.finished:
                self.pod_changed(pod)

    def _review_claim(self, name: str) -> None:
        claim = self._caches.claims.store.get(ObjectKey(self._namespace, name))
        if claim is not None:
            self.claim_changed(claim)

    def _worker(self, name: str, uid: str) -> Workload | None:
        workload = self._caches.workloads.store.get(ObjectKey(self._namespace, name))
        return workload if workload is not None and workload.uid == uid else None

    def _hold(self, seat: Seat) -> SeatInfo:
        workload = self._worker(seat.workload, seat.workload_uid)
        if workload is None:
            return convert.seat_info(seat)
        request = self._requests.of(workload)
        return convert.seat_info(seat, request.host.cpu_millis if request is not None else 0)

    def pod_changed(self, pod: AnyPod) -> None:
        """Take in what a Pod holds; one that has ended holds nothing."""
        if pod.finished:
            self.pod_gone(pod)
            return
        self.fleet.set_pod(self._use(pod))

    def _use(self, pod: AnyPod) -> PodUse:
        if isinstance(pod, ForeignPod) or pod.metadata.namespace != self._namespace:
            return convert.pod_use(pod)
        owner = controlling_workload(pod)
        if owner is None:
            return convert.pod_use(pod, claims=pod.claim_names)
        workload = self._worker(owner.name, owner.uid)
        if workload is None:
            return convert.pod_use(pod, worker_uid=owner.uid, claims=pod.claim_names)
        request = self._requests.of(workload)
        return convert.pod_use(
            pod,
            worker_uid=owner.uid,
            claims=pod.claim_names,
            owner_key=workload.owner_key,
            exclusive=workload.spec.exclusive if request is None else not request.shareable,
        )

    def pod_gone(self, pod: AnyPod) -> None:
        """A Pod ended or went: what it held on its node is free."""
        self.fleet.remove_pod(pod.metadata.uid)
        node = self._caches.nodes.store.get(ObjectKey("", pod.node_name))
        if node is not None and convert.is_enabled(node):
            self.on_capacity_freed()


def _holds(pod: AnyPod) -> tuple[object, ...]:
    """What decides on what a Pod holds: where it is, what it asks for, and whether it still does."""
    asked = pod.requests if isinstance(pod, ForeignPod) else pod.spec
    return pod.node_name, asked, pod.finished


class _WorkloadFeed:
    def __init__(self, fleet_updater: FleetUpdater) -> None:
        self._fleet_updater = fleet_updater

    def on_add(self, obj: Workload, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._fleet_updater.workload_came(obj)

    def on_update(self, old: Workload, new: Workload) -> None:
        """The spec is immutable, and nothing else of it is part of the picture."""

    def on_delete(self, obj: Workload) -> None:
        """Its seats keep what they are known to cost."""


class _NodeFeed:
    def __init__(self, fleet_updater: FleetUpdater) -> None:
        self._fleet_updater = fleet_updater

    def on_add(self, obj: Node, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._fleet_updater.announce(self._fleet_updater.fleet.set_node(convert.node(obj)))

    def on_update(self, old: Node, new: Node) -> None:
        if (old.metadata.labels, old.spec, old.status) != (new.metadata.labels, new.spec, new.status):
            self._fleet_updater.announce(self._fleet_updater.fleet.set_node(convert.node(new)))

    def on_delete(self, obj: Node) -> None:
        self._fleet_updater.announce(self._fleet_updater.fleet.remove_node(obj.metadata.name))


class _SliceFeed:
    def __init__(self, fleet_updater: FleetUpdater) -> None:
        self._fleet_updater = fleet_updater

    def on_add(self, obj: ResourceSlice, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        described = convert.device_slice(obj)
        if described is not None:
            self._fleet_updater.announce(self._fleet_updater.fleet.set_slice(described))

    def on_update(self, old: ResourceSlice, new: ResourceSlice) -> None:
        if old.spec != new.spec:
            self.on_add(new, initial=False)

    def on_delete(self, obj: ResourceSlice) -> None:
        self._fleet_updater.announce(self._fleet_updater.fleet.remove_slice(obj.metadata.name))


class _PodFeed:
    def __init__(self, fleet_updater: FleetUpdater) -> None:
        self._fleet_updater = fleet_updater

    def on_add(self, obj: AnyPod, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._fleet_updater.pod_changed(obj)

    def on_update(self, old: AnyPod, new: AnyPod) -> None:
        if _holds(old) != _holds(new):
            self._fleet_updater.pod_changed(new)

    def on_delete(self, obj: AnyPod) -> None:
        self._fleet_updater.pod_gone(obj)


class _ClaimFeed:
    def __init__(self, fleet_updater: FleetUpdater) -> None:
        self._fleet_updater = fleet_updater

    def on_add(self, obj: ResourceClaim, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._fleet_updater.claim_changed(obj)

    def on_update(self, old: ResourceClaim, new: ResourceClaim) -> None:  # noqa: ARG002 - the fleet compares
        self._fleet_updater.claim_changed(new)

    def on_delete(self, obj: ResourceClaim) -> None:
        self._fleet_updater.fleet.remove_claim(obj.metadata.name)


class _LedgerFeed:
    def __init__(self, fleet_updater: FleetUpdater) -> None:
        self._fleet_updater = fleet_updater

    def on_add(self, obj: ClaimLedger, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._fleet_updater.ledger_changed(obj)

    def on_update(self, old: ClaimLedger, new: ClaimLedger) -> None:  # noqa: ARG002 - the fleet compares
        self._fleet_updater.ledger_changed(new)

    def on_delete(self, obj: ClaimLedger) -> None:
        self._fleet_updater.ledger_gone(obj)
