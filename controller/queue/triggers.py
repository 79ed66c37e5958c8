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

    def connect(self, fleet_updater: FleetUpdater) -> None:
        """Subscribe to the caches. Call after the picture has subscribed, which must be up to date first."""
        fleet_updater.on_inventory = self.activate_all_waiting
        fleet_updater.on_capacity_freed = self.wake_all
        self._caches.workloads.add_handler(_WorkloadEvents(self), inline=True)
        self._caches.pods.add_handler(_PodEvents(self), inline=True)
        self._caches.claims.add_handler(_ClaimEvents(self), inline=True)
        self._caches.ledgers.add_handler(_LedgerEvents(self), inline=True)
        self._caches.device_classes.add_handler(_DeviceClassEvents(self), inline=True)

    def tell(self, names: Iterable[str]) -> None:
        """A ledger or claim says something about these Workloads of the workers' namespace."""
        for name in names:
            self.self_writes.tell(ObjectKey(self._namespace, name))

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

    def skipped(self, workload: Workload) -> None:
        """A worker that was woken for a free seat did not take it: the next in line may."""
        key = ObjectKey.of(workload)
        self._skipped[key] = None
        self.hand_offs.skipped(key)
        self._schedule()

    def _schedule(self) -> None:
        """At the end of this turn of the loop: many events are one wake-up."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_soon(self._activate_now)

    def _activate_now(self) -> None:
        takers = self._activation_planner.takers(self._skipped)
        keys = list(self._scheduling_queue) if self._everybody else takers
        if self._unexplained:
            keys = [*keys, *self._activation_planner.explained(self._scheduling_queue.unexplained())]
        self._due, self._everybody, self._unexplained = None, False, False
        self._scheduling_queue.activated(takers)
        self.hand_offs.handed_out(takers)
        for key in keys:
            self.activate(key)

    def enqueue_waiting(self, workload: Workload) -> None:
        """Let a Workload join or leave the line by what the caches show of it and its Pod."""
        key = ObjectKey.of(workload)
        pods = self._caches.pods_of(workload.uid)
        if workload.terminal or workload.deleting or any(pod.bound for pod in pods):
            self._leave_queue(workload)
        else:
            self._scheduling_queue.join(
                key, workload.creation_order, equivalence_class_of(self._requests.of(workload))
            )
            self._gauges.waits(key, workload)

    def workload_gone(self, workload: Workload) -> None:
        """A Workload is gone."""
        self._leave_queue(workload)
        self._requests.forget(workload)

    def _leave_queue(self, workload: Workload) -> None:
        """Take a Workload out of the line; what it was woken for goes to the next one."""
        key = ObjectKey.of(workload)
        self._gauges.waits_no_more(key)
        if self._scheduling_queue.leave(key):
            self.skipped(workload)

    def status_changed(self, workload: Workload) -> None:
        """A status was written, by this process or by another one."""
        key = ObjectKey.of(workload)
        if key not in self._scheduling_queue:
            self.self_writes.tell_status(key, workload.metadata.resource_version)

    def creator(self, claim: ResourceClaim) -> None:
        """A claim is gone: the worker that may cut one of that name looks at it."""
        for workload in self._caches.workloads.store.by_index(BY_OWN_CLAIM, claim.metadata.name):
            self.self_writes.tell(ObjectKey.of(workload))

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
            self.self_writes.tell(ObjectKey.of(workload))

    def seats_joined(self, seats: Iterable[Seat]) -> None:
        """Seats came to a ledger that was there: what these workers were woken for has reached them."""
        for seat in seats:
            self.hand_offs.booked(ObjectKey(self._namespace, seat.workload))

    def _workload(self, name: str) -> Workload | None:
        return self._caches.workloads.store.get(ObjectKey(self._namespace, name))

    def _ledger_of(self, claim: str) -> ClaimLedger | None:
        if not is_claim_name(claim):
            return None
        return self._caches.ledgers.store.get(ObjectKey(self._namespace, ledger_name(claim)))


class _WorkloadEvents:
    """Added, spec or deletion changed; or somebody else wrote the status of one that does not wait.

    Those who wait are looked at every retry interval. For the others a status that comes late, from a leader
    of before, would stand for good: the news of their Pods may have come first.
    """

    def __init__(self, triggers: QueueTriggers) -> None:
        self._triggers = triggers

    def on_add(self, obj: Workload, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._triggers.enqueue_waiting(obj)
        self._triggers.activate(ObjectKey.of(obj))

    def on_update(self, old: Workload, new: Workload) -> None:
        self._triggers.enqueue_waiting(new)
        changed = (old.metadata.generation, old.deleting) != (new.metadata.generation, new.deleting)
        if changed or new.terminal != old.terminal:
            self._triggers.activate(ObjectKey.of(new))
        elif new.status != old.status:
            self._triggers.status_changed(new)

    def on_delete(self, obj: Workload) -> None:
        self._triggers.workload_gone(obj)


class _PodEvents:
    """A worker's Pod came, changed or vanished. What others' Pods free is seen by the picture."""

    def __init__(self, triggers: QueueTriggers) -> None:
        self._triggers = triggers

    def on_add(self, obj: AnyPod, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._triggers.pod_of(obj)

    def on_update(self, old: AnyPod, new: AnyPod) -> None:
        if isinstance(old, ForeignPod) or isinstance(new, ForeignPod):
            self._triggers.pod_of(new)
            return
        deletion = (old.metadata.deletion_timestamp, new.metadata.deletion_timestamp)
        if old.status != new.status or old.spec.node_name != new.spec.node_name or deletion[0] != deletion[1]:
            self._triggers.pod_of(new)

    def on_delete(self, obj: AnyPod) -> None:
        self._triggers.pod_of(obj)


class _ClaimEvents:
    """A managed claim was allocated, deallocated, marked for deletion, or deleted."""

    def __init__(self, triggers: QueueTriggers) -> None:
        self._triggers = triggers

    def on_add(self, obj: ResourceClaim, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        if obj.allocated:
            self._changed(obj)
            self._triggers.activate_unexplained()

    def on_update(self, old: ResourceClaim, new: ResourceClaim) -> None:
        if old.status.allocation != new.status.allocation or old.deleting != new.deleting:
            self._changed(new)
        if new.allocated and not old.allocated:
            self._triggers.activate_unexplained()

    def on_delete(self, obj: ResourceClaim) -> None:
        self._triggers.creator(obj)
        self._changed(obj)

    def _changed(self, claim: ResourceClaim) -> None:
        self._triggers.holders(claim)
        self._triggers.wake_all()


class _LedgerEvents:
    """The ClaimLedger watch, filtered to seat removals and deletions: these wake everybody who waits."""

    def __init__(self, triggers: QueueTriggers) -> None:
        self._triggers = triggers

    def on_add(self, obj: ClaimLedger, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._triggers.seats_gained(obj, obj.seats)

    def on_update(self, old: ClaimLedger, new: ClaimLedger) -> None:
        before = {seat.ref: seat for seat in old.seats}
        after = {seat.ref: seat for seat in new.seats}
        went = [seat for ref, seat in before.items() if after.get(ref) != seat]
        came = [seat for ref, seat in after.items() if ref not in before]
        if went:
            self._triggers.hand_offs.freed(max(0, len(old.seats) - len(new.seats)))
            self._triggers.seats_lost(new, went)
        if came:
            self._triggers.seats_joined(came)
            self._triggers.seats_gained(new, came)

    def on_delete(self, obj: ClaimLedger) -> None:
        self._triggers.seats_lost(obj, obj.seats)


class _DeviceClassEvents:
    """A DeviceClass appeared: workers that waited for it can go on."""

    def __init__(self, triggers: QueueTriggers) -> None:
        self._triggers = triggers

    def on_add(self, obj: DeviceClass, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._triggers.activate_all_waiting()

    def on_update(self, old: DeviceClass, new: DeviceClass) -> None:
        """An edit of a class touches no allocation and frees none."""

    def on_delete(self, obj: DeviceClass) -> None:
        """Waiting workers learn of a missing class when they next cut a claim."""
