"""Mapping of watch events to the Workloads that they affect (contract §6).

Handlers run inline with the caches, after `controller.cluster.fleet_updater` has updated the fleet: an
activated Workload finds the change there. They only enqueue keys. A booking activates only its own worker. An
event that frees something leads to one plan for all waiting workers, made once per iteration of the event
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from heapq import merge

from controller.api.dra import DeviceClass, ResourceClaim
from controller.api.names import FINALIZER
from controller.api.pods import AnyPod, ForeignPod
from controller.api.requests import PlacementRequests
from controller.api.status import holders_of_unrecorded
from controller.api.workload import Workload
from controller.cluster.caches import BY_OWN_CLAIM, Caches, controlling_workload
from controller.cluster.fleet_updater import FleetUpdater
from controller.observe.gauges import Gauges
from controller.observe.handoff_latency import HandOffLatency
from controller.queue.activation import ActivationPlanner
from controller.queue.refused_groups import RefusedGroups
from controller.queue.scheduling_queue import SchedulingQueue
from controller.queue.self_writes import SelfWriteFilter
from informers.api import ObjectKey
from informers.queue.workqueue import WorkQueue
from ledger.claim_names import is_claim_name, ledger_name
from ledger.state import ClaimLedger, Seat

FOREIGN_STATUS_DELAY_SECONDS = 10.0
"""How long after another process's status write its Workload is reconciled."""


class QueueTriggers:
    """Event handlers that enqueue Workloads and update the scheduling queue."""

    def __init__(
        self,
        caches: Caches,
        queue: WorkQueue[ObjectKey],
        *,
        scheduling_queue: SchedulingQueue,
        activation_planner: ActivationPlanner,
        requests: PlacementRequests,
        gauges: Gauges,
        refused_groups: RefusedGroups,
        namespace: str,
    ) -> None:
        self._caches = caches
        self._queue = queue
        self._scheduling_queue = scheduling_queue
        self._activation_planner = activation_planner
        self._requests = requests
        self._gauges = gauges
        self._refused_groups = refused_groups
        self._namespace = namespace
        self.hand_offs = HandOffLatency()
        self.self_writes = SelfWriteFilter(self.activate, self._activate_later)
        self._planned: asyncio.Handle | None = None
        self._all_due = False
        self._unexplained_due = False
        # Workers that were activated for a free seat since the last event that freed one, and did not book
        # it.
        self._skipped: dict[ObjectKey, None] = {}

    def subscribe(self, fleet_updater: FleetUpdater) -> None:
        """Subscribe to the caches, after the fleet updater has: the handlers read its fleet."""
        fleet_updater.on_inventory_changed = self._activate_all
        fleet_updater.on_capacity_freed = self._activate_fitting
        self._caches.workloads.on_change(self._on_workload, inline=True)
        self._caches.workloads.store.on_unreadable = lambda workload: self.activate(ObjectKey.of(workload))
        self._caches.pods.on_change(self._on_pod, inline=True)
        self._caches.claims.on_change(self._on_claim, inline=True)
        self._caches.ledgers.on_change(self._on_ledger, inline=True)
        self._caches.device_classes.on_change(self._on_device_class, inline=True)

    def activate(self, key: ObjectKey) -> None:
        """Enqueue one Workload in creation order."""
        self._queue.add(key, order=self._order_of(key))

    def activate_next(self, workload: Workload) -> None:
        """Offer the next worker the seat for which this worker was activated and which it did not book."""
        key = ObjectKey.of(workload)
        self._skipped[key] = None
        self.hand_offs.record_skipped(key)
        self._schedule_plan()

    # Events.

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        """Handle a new spec, a deletion, an end, a lost finalizer, or a status that another process wrote.

        Only waiting workers are reconciled every retry interval. For the others, a late status write by the
        previous leader would otherwise never be corrected, because the Pod's events may have come first.
        """
        changed = new or old
        if changed is not None and (new is None or new.terminal or new.deleting):
            self._refused_groups.forget(ObjectKey.of(changed))
        if new is None:
            if old is not None:
                self._dequeue(old)
                self._requests.forget(old)
            return
        self._update_queue(new)
        key = ObjectKey.of(new)
        if (
            old is None
            or (old.metadata.generation, old.deleting) != (new.metadata.generation, new.deleting)
            or old.terminal != new.terminal
            or _finalizers_matter(old, new)
        ):
            self.activate(key)
        elif new.status != old.status and key not in self._scheduling_queue:
            self.self_writes.notify_status(key, new.metadata.resource_version)

    def _on_pod(self, old: AnyPod | None, new: AnyPod | None) -> None:
        """Handle a change of the status, spec or deletion of a worker's Pod."""
        if _ends(old, new, self._namespace):
            self._refused_groups.freed()
        pod = new or old
        if pod is not None and (old is None or new is None or _differs(old, new)):
            self._activate_owner(pod)

    def _on_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Handle a managed claim that was allocated, deallocated, given other owners, or deleted."""
        if new is None:
            if old is not None:
                if old.allocated:
                    # Others went with a refused attempt of ours.
                    self._refused_groups.freed()
                # The worker that would create a claim of this name again.
                for workload in self._caches.workloads.store.by_index(BY_OWN_CLAIM, old.metadata.name):
                    self.self_writes.notify(ObjectKey.of(workload))
                self._claim_changed(old)
            return
        if new.allocated if old is None else _claim_facts(old) != _claim_facts(new):
            self._claim_changed(new)
        if new.allocated and (old is None or not old.allocated):
            # A new allocation may explain waits that had no known cause.
            self._unexplained_due = True
            self._schedule_plan()

    def _on_ledger(self, old: ClaimLedger | None, new: ClaimLedger | None) -> None:
        """Handle lost and gained seats."""
        if new is None:
            if old is not None:
                self._seats_lost(old, old.seats)
            return
        before = {seat.ref: seat for seat in old.seats} if old is not None else {}
        after = {seat.ref: seat for seat in new.seats}
        lost = [seat for ref, seat in before.items() if after.get(ref) != seat]
        gained = [seat for ref, seat in after.items() if ref not in before]
        if lost:
            self.hand_offs.record_freed(max(0, len(before) - len(after)))
            self._seats_lost(new, lost)
        if old is not None:
            for seat in gained:
                self.hand_offs.record_booked(ObjectKey(self._namespace, seat.workload))
        for workload in holders_of_unrecorded(new.claim_name, gained, self._workload):
            self.self_writes.notify(ObjectKey.of(workload))

    def _on_device_class(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        # An edit frees no allocation. A missing class is noticed when a worker next creates a claim.
        if old is None and new is not None:
            self._activate_all()

    def _claim_changed(self, claim: ResourceClaim) -> None:
        name = claim.metadata.name
        if is_claim_name(name):
            ledger = self._caches.ledgers.store.get(ObjectKey(self._namespace, ledger_name(name)))
            self._notify_holders(ledger.seats if ledger is not None else ())
        self._activate_fitting()

    def _seats_lost(self, ledger: ClaimLedger, seats: Iterable[Seat]) -> None:
        self._notify_holders(seats)
        for pod in self._caches.pods_on(ObjectKey(self._namespace, ledger.claim_name)):
            self._activate_owner(pod)
        self._activate_fitting()

    def _notify_holders(self, seats: Iterable[Seat]) -> None:
        for seat in seats:
            self.self_writes.notify(ObjectKey(self._namespace, seat.workload))

    def _activate_owner(self, pod: AnyPod) -> None:
        owner = controlling_workload(pod)
        if owner is None:
            return
        key = ObjectKey(pod.metadata.namespace, owner.name)
        workload = self._caches.workloads.store.get(key)
        if workload is not None:
            self._update_queue(workload)
            self.activate(key)

    # Activation.

    def _activate_later(self, key: ObjectKey) -> None:
        self._queue.add_after(key, FOREIGN_STATUS_DELAY_SECONDS, order=self._order_of(key))

    def _order_of(self, key: ObjectKey) -> tuple[str, str]:
        # A key without an order would come before all others.
        workload = self._caches.workloads.store.get(key)
        return workload.creation_order if workload else ("", key.name)

    def _activate_fitting(self) -> None:
        """Activate the waiting workers that can use the freed capacity."""
        self._skipped.clear()
        self._schedule_plan()

    def _activate_all(self) -> None:
        """Activate all waiting workers: the inventory changed."""
        self._all_due = True
        self._activate_fitting()

    def _schedule_plan(self) -> None:
        """Plan at the end of this iteration of the event loop, so that many events lead to one plan."""
        if self._planned is None:
            self._planned = asyncio.get_running_loop().call_soon(self._activate_planned)

    def _activate_planned(self) -> None:
        planned = self._activation_planner.plan(self._skipped)
        keys = self._not_refused() if self._all_due else planned
        if self._unexplained_due:
            keys = [*keys, *self._activation_planner.explainable(self._scheduling_queue.unexplained())]
        self._planned, self._all_due, self._unexplained_due = None, False, False
        self._scheduling_queue.mark_activated(planned)
        self.hand_offs.record_activated(planned)
        for key in keys:
            self.activate(key)

    def _not_refused(self) -> list[ObjectKey]:
        """Return the waiting workers, oldest first, without the classes whose Pods are refused."""
        classes = self._scheduling_queue.by_equivalence_class().items()
        open_classes = [entries for key, entries in classes if not self._refused_groups.holds_pods(key)]
        return [key for _, key in merge(*open_classes)]

    # The scheduling queue.

    def _update_queue(self, workload: Workload) -> None:
        """Add a Workload to the scheduling queue or remove it, depending on its cached state and Pods."""
        pods = self._caches.pods_of(workload.uid)
        if workload.terminal or workload.deleting or any(pod.bound for pod in pods):
            self._dequeue(workload)
            return
        key = ObjectKey.of(workload)
        equivalence_class = self._requests.equivalence_class(workload)
        self._scheduling_queue.add(key, workload.creation_order, equivalence_class)
        self._gauges.set_waiting(key, workload)

    def _dequeue(self, workload: Workload) -> None:
        """Remove a Workload from the queue, and offer the seat that it was activated for to the next one."""
        key = ObjectKey.of(workload)
        self._gauges.clear_waiting(key)
        if self._scheduling_queue.remove(key):
            self.activate_next(workload)

    def _workload(self, name: str) -> Workload | None:
        return self._caches.workloads.store.get(ObjectKey(self._namespace, name))


def _finalizers_matter(old: Workload, new: Workload) -> bool:
    """Return whether our finalizer was lost, or a deletion can continue."""
    before, after = old.metadata.finalizers, new.metadata.finalizers
    return before != after and (new.deleting or FINALIZER not in after)


def _claim_facts(claim: ResourceClaim) -> tuple[object, ...]:
    """Return what decides whether a claim can be used: without its owner it is repaired first."""
    return claim.status.allocation, claim.deleting, claim.metadata.owner_references


def _ends(old: AnyPod | None, new: AnyPod | None, namespace: str) -> bool:
    """Return whether a Pod of the workers' namespace has just ended or gone."""
    if old is None or old.metadata.namespace != namespace:
        return False
    return not old.finished and (new is None or new.finished)


def _differs(old: AnyPod, new: AnyPod) -> bool:
    if isinstance(old, ForeignPod) or isinstance(new, ForeignPod):
        return True
    return (old.status, old.spec, old.metadata.deletion_timestamp) != (
        new.status,
        new.spec,
        new.metadata.deletion_timestamp,
    )
