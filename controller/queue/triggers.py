"""Who is looked at after which event (contract §6).

Handlers run inline with the cache, after `controller.cluster.fleet_updater` has updated the fleet: whoever is
woken finds the change already there. They only add keys to the queue. Bookings wake nobody but their own
worker; what frees something wakes everybody who waits, oldest first, once for all events of one turn of the
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from controller.api.dra import DeviceClass, ResourceClaim
from controller.api.pods import AnyPod, ForeignPod
from controller.api.requests import PlacementRequests
from controller.api.status import holders_of_unrecorded
from controller.api.workload import Workload
from controller.cluster.caches import BY_OWN_CLAIM, Caches, controlling_workload
from controller.cluster.fleet_updater import FleetUpdater
from controller.observe.gauges import Gauges
from controller.observe.handoff_latency import HandOffLatency
from controller.queue.activation import ActivationPlanner, equivalence_class_of
from controller.queue.scheduling_queue import SchedulingQueue
from controller.queue.self_writes import SelfWriteFilter
from informers.api import ObjectKey
from informers.queue.workqueue import WorkQueue
from ledger.names import is_claim_name, ledger_name
from ledger.state import ClaimLedger, Seat

OTHERS_STATUS_SECONDS = 10.0
"""How long after another process's write of a status its worker is looked at."""


class QueueTriggers:
    """Adds the keys of Workloads to the queue, and keeps the line of waiting workers."""

    def __init__(
        self,
        caches: Caches,
        queue: WorkQueue[ObjectKey],
        *,
        scheduling_queue: SchedulingQueue,
        activation_planner: ActivationPlanner,
        requests: PlacementRequests,
        gauges: Gauges,
        namespace: str,
    ) -> None:
        self._caches = caches
        self._queue = queue
        self._scheduling_queue = scheduling_queue
        self._activation_planner = activation_planner
        self._requests = requests
        self._gauges = gauges
        self.hand_offs = HandOffLatency()
        self._namespace = namespace
        self.self_writes = SelfWriteFilter(self.activate, self._look_later)
        self._due: asyncio.Handle | None = None
        self._everybody = False
        self._unexplained = False
        # Woken for a free seat since the last event that freed something, and did not take it.
        self._skipped: dict[ObjectKey, None] = {}

    def __repr__(self) -> str:
        return f"<Wakeups line={self._scheduling_queue!r} due={self._due is not None}>"

    def subscribe(self, fleet_updater: FleetUpdater) -> None:
        """Subscribe to the caches. Call after the picture has subscribed, which must be up to date first."""
        fleet_updater.on_inventory_changed = self.activate_all_waiting
        fleet_updater.on_capacity_freed = self.wake_all
        self._caches.workloads.on_change(self._on_workload, inline=True)
        self._caches.pods.on_change(self._on_pod, inline=True)
        self._caches.claims.on_change(self._on_claim, inline=True)
        self._caches.ledgers.on_change(self._on_ledger, inline=True)
        self._caches.device_classes.on_change(self._on_device_class, inline=True)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        """React to a new spec, a deletion, or a status that another process wrote.

        Waiting workers are reconciled every retry interval. For any other worker, a late status write by the
        previous leader would never be corrected: the events of its Pod may have come first.
        """
        if new is None:
            if old is not None:
                self.workload_gone(old)
            return
        self.enqueue_waiting(new)
        if (
            old is None
            or (old.metadata.generation, old.deleting) != (new.metadata.generation, new.deleting)
            or old.terminal != new.terminal
        ):
            self.activate(ObjectKey.of(new))
        elif new.status != old.status:
            self.status_changed(new)

    def _on_pod(self, old: AnyPod | None, new: AnyPod | None) -> None:
        """React to the phase, conditions, node and deletion of a worker's Pod."""
        pod = new or old
        if pod is not None and (old is None or new is None or _pod_changed(old, new)):
            self.pod_of(pod)

    def _on_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """React to a managed claim that was allocated, deallocated, marked for deletion, or deleted."""
        if new is None:
            if old is not None:
                self.creator(old)
                self.holders(old)
                self.wake_all()
            return
        was_allocated = old is not None and old.allocated
        if old is None:
            changed = new.allocated
        else:
            changed = old.status.allocation != new.status.allocation or old.deleting != new.deleting
        if changed:
            self.holders(new)
            self.wake_all()
        if new.allocated and not was_allocated:
            self.activate_unexplained()

    def _on_ledger(self, old: ClaimLedger | None, new: ClaimLedger | None) -> None:
        """React to lost and gained seats."""
        if new is None:
            if old is not None:
                self.seats_lost(old, old.seats)
            return
        before = {seat.ref: seat for seat in old.seats} if old is not None else {}
        after = {seat.ref: seat for seat in new.seats}
        lost = [seat for ref, seat in before.items() if after.get(ref) != seat]
        gained = [seat for ref, seat in after.items() if ref not in before]
        if old is not None and lost:
            self.hand_offs.record_freed(max(0, len(old.seats) - len(new.seats)))
            self.seats_lost(new, lost)
        if old is not None and gained:
            self.seats_joined(gained)
        if gained:
            self.seats_gained(new, gained)

    def _on_device_class(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        # An edit frees no allocation. Workers learn that a class is missing when they next create a claim.
        if old is None and new is not None:
            self.activate_all_waiting()

    def tell(self, names: Iterable[str]) -> None:
        """A ledger or claim says something about these Workloads of the workers' namespace."""
        for name in names:
            self.self_writes.notify(ObjectKey(self._namespace, name))

    def activate(self, key: ObjectKey) -> None:
        """Look at one Workload soon."""
        self._queue.add(key, order=self._order_of(key))

    def _look_later(self, key: ObjectKey) -> None:
        self._queue.add_after(key, OTHERS_STATUS_SECONDS, order=self._order_of(key))

    def _order_of(self, key: ObjectKey) -> tuple[str, str]:
        """Its place among those that are due: a key without one would come before all others."""
        workload = self._caches.workloads.store.get(key)
        return workload.creation_order if workload else ("", key.name)

    def wake_all(self) -> None:
        """Something became free: all who wait are considered, and those are woken who could take it."""
        self._skipped.clear()
        self._schedule()

    def activate_all_waiting(self) -> None:
        """The fleet changed: everybody who waits looks at it anew."""
        self._everybody = True
        self.wake_all()

    def activate_unexplained(self) -> None:
        """A claim was allocated: those who could not say what is in their way may be able to now."""
        self._unexplained = True
        self._schedule()

    def activate_next(self, workload: Workload) -> None:
        """A worker that was woken for a free seat did not take it: the next in line may."""
        key = ObjectKey.of(workload)
        self._skipped[key] = None
        self.hand_offs.record_skipped(key)
        self._schedule()

    def _schedule(self) -> None:
        """At the end of this turn of the loop: many events are one wake-up."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_soon(self._activate_now)

    def _activate_now(self) -> None:
        takers = self._activation_planner.plan(self._skipped)
        keys = list(self._scheduling_queue) if self._everybody else takers
        if self._unexplained:
            keys = [*keys, *self._activation_planner.explainable(self._scheduling_queue.unexplained())]
        self._due, self._everybody, self._unexplained = None, False, False
        self._scheduling_queue.mark_activated(takers)
        self.hand_offs.record_activated(takers)
        for key in keys:
            self.activate(key)

    def enqueue_waiting(self, workload: Workload) -> None:
        """Let a Workload join or leave the line by what the caches show of it and its Pod."""
        key = ObjectKey.of(workload)
        pods = self._caches.pods_of(workload.uid)
        if workload.terminal or workload.deleting or any(pod.bound for pod in pods):
            self._leave_queue(workload)
        else:
            self._scheduling_queue.add(
                key, workload.creation_order, equivalence_class_of(self._requests.of(workload))
            )
            self._gauges.set_waiting(key, workload)

    def workload_gone(self, workload: Workload) -> None:
        """A Workload is gone."""
        self._leave_queue(workload)
        self._requests.forget(workload)

    def _leave_queue(self, workload: Workload) -> None:
        """Take a Workload out of the line; what it was woken for goes to the next one."""
        key = ObjectKey.of(workload)
        self._gauges.clear_waiting(key)
        if self._scheduling_queue.remove(key):
            self.activate_next(workload)

    def status_changed(self, workload: Workload) -> None:
        """A status was written, by this process or by another one."""
        key = ObjectKey.of(workload)
        if key not in self._scheduling_queue:
            self.self_writes.notify_status(key, workload.metadata.resource_version)

    def creator(self, claim: ResourceClaim) -> None:
        """A claim is gone: the worker that may cut one of that name looks at it."""
        for workload in self._caches.workloads.store.by_index(BY_OWN_CLAIM, claim.metadata.name):
            self.self_writes.notify(ObjectKey.of(workload))

    def pod_of(self, pod: AnyPod) -> None:
        """A worker's Pod changed: its Workload is looked at, and its place in line reviewed."""
        owner = controlling_workload(pod)
        if owner is None:
            return
        key = ObjectKey(pod.metadata.namespace, owner.name)
        workload = self._caches.workloads.store.get(key)
        if workload is not None:
            self.enqueue_waiting(workload)
            self.activate(key)

    def holders(self, claim: ResourceClaim) -> None:
        """A claim changed: its seat holders are looked at (its founder is one of them)."""
        ledger = self._ledger_of(claim.metadata.name)
        if ledger is not None:
            self.tell(seat.workload for seat in ledger.seats)

    def seats_lost(self, ledger: ClaimLedger, seats: Iterable[Seat]) -> None:
        """Seats went or changed: wakeAll, their Workloads, and those of live Pods on the claim."""
        self.tell(seat.workload for seat in seats)
        for pod in self._caches.pods_on(ObjectKey(self._namespace, ledger.claim_name)):
            self.pod_of(pod)
        self.wake_all()

    def seats_gained(self, ledger: ClaimLedger, seats: Iterable[Seat]) -> None:
        """Seats came: a Workload whose status does not name this one may have a stray."""
        for workload in holders_of_unrecorded(ledger.claim_name, seats, self._workload):
            self.self_writes.notify(ObjectKey.of(workload))

    def seats_joined(self, seats: Iterable[Seat]) -> None:
        """Seats came to a ledger that was there: what these workers were woken for has reached them."""
        for seat in seats:
            self.hand_offs.record_booked(ObjectKey(self._namespace, seat.workload))

    def _workload(self, name: str) -> Workload | None:
        return self._caches.workloads.store.get(ObjectKey(self._namespace, name))

    def _ledger_of(self, claim: str) -> ClaimLedger | None:
        if not is_claim_name(claim):
            return None
        return self._caches.ledgers.store.get(ObjectKey(self._namespace, ledger_name(claim)))


def _pod_changed(old: AnyPod, new: AnyPod) -> bool:
    if isinstance(old, ForeignPod) or isinstance(new, ForeignPod):
        return True
    return (old.status, old.spec.node_name, old.metadata.deletion_timestamp) != (
        new.status,
        new.spec.node_name,
        new.metadata.deletion_timestamp,
    )
