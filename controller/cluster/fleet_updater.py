"""Keep placement's fleet equal to the caches, event by event.

Inline handlers convert each object as it enters or leaves a cache. The fleet therefore never lags behind what
a reconcile reads, except during a long list that is delivered in slices (see `informers.cache.store`).
Changes that free or add capacity are announced through `on_inventory_changed` and `on_capacity_freed`.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.api import convert
from controller.api.core import Node, Pod
from controller.api.dra import ResourceClaim, ResourceSlice
from controller.api.names import pod_name
from controller.api.pods import AnyPod, ForeignPod, effective_request_of
from controller.api.requests import PlacementRequests
from controller.api.workload import Workload
from controller.cluster.caches import BY_WORKER, Caches, controlling_workload
from controller.runtime import logs
from informers.api import ObjectKey
from ledger.claim_names import is_claim_name, ledger_name
from ledger.state import ClaimLedger, Seat
from placement.fleet import Fleet
from placement.types import PodUse, SeatInfo

_log = logs.get_logger(__name__)


class FleetUpdater:
    """Updates one `Fleet` from the caches of the controller."""

    def __init__(self, caches: Caches, fleet: Fleet, requests: PlacementRequests, namespace: str) -> None:
        self._caches = caches
        self._requests = requests
        self._namespace = namespace
        self.fleet = fleet
        self._ignored_pools: frozenset[tuple[str, int, str]] = frozenset()
        self._unsupported: frozenset[str] = frozenset()
        self.on_inventory_changed: Callable[[], None] = lambda: None
        """Called after nodes or devices changed in a way that decisions depend on."""
        self.on_capacity_freed: Callable[[], None] = lambda: None
        """Called after a Pod released resources of a node that counts, or a place on a claim, and after the
        requests of workers changed."""

    def subscribe(self) -> None:
        """Subscribe to the caches. Call it before any reader of the fleet subscribes."""
        self._caches.workloads.on_change(self._on_workload, inline=True)
        self._caches.nodes.on_change(self._on_node, inline=True)
        self._caches.slices.on_change(self._on_slice, inline=True)
        self._caches.pods.on_change(self._on_pod, inline=True)
        self._caches.claims.on_change(self._on_claim, inline=True)
        self._caches.ledgers.on_change(self._on_ledger, inline=True)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        # Its seats' requests and its Pods' owner are known from now on. The spec is immutable, and seats
        # keep their requests after the Workload is deleted.
        if old is not None or new is None:
            return
        for pod in self._caches.pods_of(new.uid):
            self._learn(new, pod)
            if not pod.finished:
                self._set_pod(pod)
        self._refresh_seats(new.uid)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            changed = old is not None and self.fleet.remove_node(old.metadata.name)
        elif old is not None and _node_facts(old) == _node_facts(new):
            changed = False
        else:
            changed = self.fleet.set_node(convert.node(new, self._requests.label_keys))
        self._announce_inventory(changed)

    def _on_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if new is None:
            self._announce_inventory(old is not None and self.fleet.remove_slice(old.metadata.name))
        elif old is None or old.spec != new.spec:
            self._announce_inventory(self.fleet.set_slice(convert.device_slice(new)))
            self._log_ignored_pools(incomplete=False)

    def _on_pod(self, old: AnyPod | None, new: AnyPod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._remove_pod(old)
        if isinstance(new, Pod) and new.metadata.namespace == self._namespace:
            owner = controlling_workload(new)
            workload = self._workload(owner.name, owner.uid) if owner is not None else None
            if workload is not None:
                self._learn(workload, new)
        if new is not None and (old is None or _usage(old) != _usage(new)):
            self._set_pod(new)

    def _on_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None:
            self._set_claim(new)
        elif old is not None:
            self.fleet.remove_claim(old.metadata.name)

    def _on_ledger(self, old: ClaimLedger | None, new: ClaimLedger | None) -> None:
        if new is not None:
            self._set_seats(new)
        elif old is not None:
            self.fleet.set_seats(old.claim_name, ())
            self._refresh_claim(old.claim_name)

    def _learn(self, workload: Workload, pod: Pod) -> None:
        """Update the requests that follow from a worker's Pod, and everything that depends on them."""
        known_keys = self._requests.label_keys
        if pod.metadata.name != pod_name(workload.name) or not self._requests.learn(workload, pod):
            return
        if self._requests.label_keys != known_keys:
            for node in self._caches.nodes.store:
                self.fleet.set_node(convert.node(node, self._requests.label_keys))
        self._refresh_seats(workload.uid)
        self.on_capacity_freed()

    def _refresh_seats(self, worker_uid: str) -> None:
        for ledger in self._caches.ledgers.store.by_index(BY_WORKER, worker_uid):
            self._set_seats(ledger)

    def _announce_inventory(self, changed: bool) -> None:
        if changed:
            self.on_inventory_changed()
            self._log_ignored_pools()

    def _log_ignored_pools(self, *, incomplete: bool = True) -> None:
        """Log each ignored pool once per generation and cause, and each kind of unsupported device once.

        Only an inventory change logs `incomplete` pools, because slices arrive one by one.
        """
        pools = {(pool.pool, pool.generation, pool.cause): pool for pool in self.fleet.ignored_pools()}
        known = self._ignored_pools & pools.keys()
        for key, pool in pools.items():
            if key not in known and (incomplete or not pool.incomplete):
                known |= {key}
                _log.warning("Ignored device pool", **pool._asdict())
        self._ignored_pools = known
        unsupported = frozenset(self.fleet.unsupported())
        for kind in sorted(unsupported - self._unsupported):
            _log.warning("Ignored unsupported devices", kind=kind)
        self._unsupported |= unsupported

    def _set_claim(self, claim: ResourceClaim) -> None:
        """Store a claim and whether its ledger owns it. Claims that merely carry our label are ignored."""
        name = claim.metadata.name
        if is_claim_name(name):
            ledger = self._caches.ledgers.store.get(ObjectKey(self._namespace, ledger_name(name)))
            self.fleet.set_claim(convert.claim(claim, ledger.metadata.uid if ledger else ""))

    def _set_seats(self, ledger: ClaimLedger) -> None:
        self.fleet.set_seats(ledger.claim_name, tuple(self._seat_info(seat) for seat in ledger.seats))
        self._refresh_claim(ledger.claim_name)

    def _refresh_claim(self, name: str) -> None:
        """Store a claim again: its ledger, and with it its owner, may have changed."""
        claim = self._caches.claims.store.get(ObjectKey(self._namespace, name))
        if claim is not None:
            self._set_claim(claim)

    def _workload(self, name: str, uid: str) -> Workload | None:
        workload = self._caches.workloads.store.get(ObjectKey(self._namespace, name))
        return workload if workload is not None and workload.uid == uid else None

    def _seat_info(self, seat: Seat) -> SeatInfo:
        workload = self._workload(seat.workload, seat.workload_uid)
        request = self._requests.of(workload) if workload is not None else None
        return convert.seat_info(seat, request.host if request is not None else None)

    def _set_pod(self, pod: AnyPod) -> None:
        if pod.finished:
            self._remove_pod(pod)
        elif self.fleet.set_pod(self._pod_use(pod)):
            self.on_capacity_freed()

    def _remove_pod(self, pod: AnyPod) -> None:
        if self.fleet.remove_pod(pod.metadata.uid):
            self.on_capacity_freed()

    def _pod_use(self, pod: AnyPod) -> PodUse:
        if isinstance(pod, ForeignPod) or pod.metadata.namespace != self._namespace:
            return convert.pod_use(pod)
        owner = controlling_workload(pod)
        if owner is None:
            return convert.pod_use(pod, claims=pod.claim_names)
        workload = self._workload(owner.name, owner.uid)
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


def _node_facts(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.spec, node.status


def _usage(pod: AnyPod) -> tuple[object, ...]:
    """Return the facts that decide what a Pod uses of its node and its claims."""
    claims = () if isinstance(pod, ForeignPod) else pod.claim_names
    return pod.metadata.uid, pod.node_name, effective_request_of(pod), claims, pod.finished
