"""kube-scheduler with dynamic resource allocation: its queue, its writes, and its rejection messages.

As in the real scheduler, the write of the allocation reserves the devices and the Pod is bound a little
later. A rejected Pod is tried again only after an event that may help it and a back-off, or after five
minutes. Sources: `pkg/scheduler` of `k8s.io/kubernetes`, and its plugin `dynamicresources`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import anyio

from informers.api import ObjectKey, WatchEventType
from simulation.actors.base import Actor, ActorContext, condition
from simulation.actors.devices import Allocation, Inventory, read_inventory
from simulation.actors.fitting import FINAL_PHASES
from simulation.actors.scheduling import Attempt, Errored, Gated, Placement, Unschedulable
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import CLAIMS, DEVICE_CLASSES, DEVICE_TAINT_RULES, NODES, PODS, SLICES
from simulation.apiserver.refusals import Refusal
from simulation.apiserver.store import Change

PROTECTION = "resource.kubernetes.io/delete-protection"
PROFILE = "default-scheduler"
"""The scheduler name of most Pods. Pods that name an unknown scheduler are ignored."""
BACKOFF_MIN_SECONDS = 1.0
BACKOFF_MAX_SECONDS = 10.0
FLUSH_SECONDS = 300.0
"""After this long a rejected Pod is tried again without an event."""


@dataclass
class _Waiting:
    """A Pod that was tried and rejected."""

    key: ObjectKey
    attempts: int = 0
    not_before_seconds: float = 0.0
    needs_freed_resources: bool = False


class Scheduler(Actor):
    """Schedules the Pods of all namespaces, one at a time."""

    name = "scheduler"

    def __init__(self, context: ActorContext, rng: Random) -> None:
        super().__init__(context, rng)
        self._inventory: Inventory | None = None
        self._waiting: dict[str, _Waiting] = {}
        self._binding: dict[str, str] = {}
        self._profiles = [PROFILE]

    def __repr__(self) -> str:
        return f"<Scheduler waiting={len(self._waiting)} binding={len(self._binding)}>"

    def serve(self, profile: str) -> None:
        """From now on, also schedule the Pods with this scheduler name."""
        if profile not in self._profiles:
            self._profiles.append(profile)
        self._resync()

    def ignore(self, profile: str) -> None:
        """Stop scheduling the Pods with this scheduler name."""
        self._profiles = [known for known in self._profiles if known != profile]

    # Mapping changes to Pods.

    def _deliver(self, change: Change) -> None:
        if change.kind in {SLICES, DEVICE_TAINT_RULES}:
            self._inventory = None
        super()._deliver(change)

    def _on_change(self, change: Change) -> None:
        match change.kind:
            case kind if kind is PODS:
                self._on_pod(change)
            case kind if kind is CLAIMS:
                self._on_claim(change)
            case kind if kind is NODES and _node_changed(change):
                self._activate(lambda _waiting: True)
            case kind if kind in {SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES}:
                self._activate(lambda _waiting: True)
            case _:
                pass

    def _on_pod(self, change: Change) -> None:
        pod = change.record
        if change.type is WatchEventType.DELETED:
            self._waiting.pop(pod.uid, None)
        elif pod.uid not in self._waiting and self._is_schedulable(pod):
            self._enqueue(pod.key, pod.uid)
        ended = change.type is WatchEventType.DELETED or _phase(pod) in FINAL_PHASES
        if ended and pod.document["spec"].get("nodeName"):
            self._activate(lambda waiting: waiting.needs_freed_resources)

    def _on_claim(self, change: Change) -> None:
        before = _status(change.before) if change.before is not None else {}
        deleted = change.type is WatchEventType.DELETED
        after = {} if deleted else _status(change.record)
        if before.get("allocation") and not after.get("allocation"):
            self._activate(lambda _waiting: True)
        elif before != after or change.type is WatchEventType.ADDED:
            self._activate(lambda waiting: self._uses(waiting, change.record.key))

    def _uses(self, waiting: _Waiting, claim: ObjectKey) -> bool:
        pod = self._get(PODS, waiting.key)
        return pod is not None and claim in _claim_keys(pod)

    def _activate(self, concerns: Callable[[_Waiting], bool]) -> None:
        now = anyio.current_time()
        for uid, waiting in self._waiting.items():
            if concerns(waiting):
                self._enqueue(waiting.key, uid, max(0.0, waiting.not_before_seconds - now))

    def _enqueue(self, key: ObjectKey, uid: str, seconds: float = 0.0) -> None:
        seconds += self._context.delays.scheduling_seconds
        self._schedule(seconds, f"try {uid}", key, lambda: self._try(key, uid))

    def _resync(self) -> None:
        for pod in self._context.server.store.all(PODS):
            if self._is_schedulable(pod):
                self._enqueue(pod.key, pod.uid)

    def _is_schedulable(self, pod: Record) -> bool:
        spec = pod.document["spec"]
        bound_or_gated = spec.get("nodeName") or spec.get("schedulingGates")
        ours = spec.get("schedulerName", PROFILE) in self._profiles
        return ours and not bound_or_gated and not pod.deleting and _phase(pod) not in FINAL_PHASES

    # One attempt.

    def _try(self, key: ObjectKey, uid: str) -> None:
        pod = self._get(PODS, key, uid)
        if pod is None or not self._is_schedulable(pod) or uid in self._binding:
            self._waiting.pop(uid, None)
            return
        store = self._context.server.store
        if self._inventory is None:
            self._inventory = read_inventory(store.all(SLICES), store.all(DEVICE_TAINT_RULES))
        result = Attempt(store, self._inventory, pod, self._binding).run()
        match result:
            case Placement():
                self._waiting.pop(uid, None)
                self._reserve(pod, result)
            case Unschedulable():
                self._requeue(pod, needs_freed_resources=result.needs_freed_resources)
                self._reject(pod, "Unschedulable", result.message)
                if result.to_deallocate is not None:
                    self._context.server.edit(CLAIMS, result.to_deallocate, _clear, subresource="status")
            case Errored(message):
                self._requeue(pod, needs_freed_resources=False)
                self._reject(pod, "SchedulerError", message)
                waiting = self._waiting[uid]
                self._enqueue(key, uid, waiting.not_before_seconds - anyio.current_time())
            case Gated():
                self._waiting.setdefault(uid, _Waiting(key))

    def _requeue(self, pod: Record, *, needs_freed_resources: bool) -> None:
        waiting = self._waiting.setdefault(pod.uid, _Waiting(pod.key))
        backoff_seconds = min(BACKOFF_MIN_SECONDS * 2**waiting.attempts, BACKOFF_MAX_SECONDS)
        waiting.attempts += 1
        waiting.not_before_seconds = anyio.current_time() + backoff_seconds
        waiting.needs_freed_resources = needs_freed_resources
        self._enqueue(pod.key, pod.uid, FLUSH_SECONDS)

    def _reject(self, pod: Record, reason: str, message: str) -> None:
        def change(document: Document) -> None:
            status = document["status"]
            status.pop("nominatedNodeName", None)
            status["conditions"] = condition(
                status, "PodScheduled", "False", timestamp=self._timestamp(), reason=reason, message=message
            )

        self._context.server.edit(PODS, pod.key, change, subresource="status")

    # After a placement.

    def _reserve(self, pod: Record, placement: Placement) -> None:
        server = self._context.server
        if _claim_keys(pod):
            # Claims must be allocated before the Pod can be bound.
            nominate = {"status": {"nominatedNodeName": placement.node}}
            server.patch(PODS, pod.key.name, pod.key.namespace, nominate, subresource="status")
        for key in _claim_keys(pod):
            allocation = placement.allocations.get(key)
            if allocation is not None:
                server.edit(CLAIMS, key, _protect)
            server.edit(CLAIMS, key, self._reservation(pod, placement.node, allocation), subresource="status")
        self._binding[pod.uid] = placement.node
        seconds = self._context.delays.binding_seconds
        self._schedule(
            seconds, f"bind {pod.uid}", pod.key, lambda: self._bind(pod.key, pod.uid, placement.node)
        )

    def _reservation(
        self, pod: Record, node: str, allocation: Allocation | None
    ) -> Callable[[Document], None]:
        consumer = {"resource": "pods", "name": pod.key.name, "uid": pod.uid}

        def change(document: Document) -> None:
            status = document.setdefault("status", {})
            if allocation is not None:
                field = {"key": "metadata.name", "operator": "In", "values": [node]}
                status["allocation"] = {
                    "devices": {"results": list(allocation.results)},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
                    "allocationTimestamp": self._timestamp(),
                }
            consumers = status.get("reservedFor") or []
            if consumer not in consumers:
                status["reservedFor"] = [*consumers, consumer]

        return change

    def _bind(self, key: ObjectKey, uid: str, node: str) -> None:
        del self._binding[uid]
        pod = self._get(PODS, key, uid)
        bound = False
        if pod is not None:
            conditions = condition(
                pod.document["status"], "PodScheduled", "True", timestamp=self._timestamp()
            )
            with suppress(Refusal):
                self._context.server.bind(key, uid, node, conditions)
                bound = True
        if not bound:
            self._unreserve(uid)

    def _unreserve(self, uid: str) -> None:
        """Remove the reservation of a Pod that could not be bound; the allocation stays."""

        def change(document: Document) -> None:
            status = document["status"]
            kept = [c for c in status.get("reservedFor") or () if c["uid"] != uid]
            status["reservedFor"] = kept
            if not kept:
                del status["reservedFor"]

        for claim in self._context.server.store.all(CLAIMS):
            if any(c["uid"] == uid for c in _status(claim).get("reservedFor") or ()):
                self._context.server.edit(CLAIMS, claim.key, change, subresource="status")


def _claim_keys(pod: Record) -> list[ObjectKey]:
    entries = pod.document["spec"].get("resourceClaims") or ()
    return [ObjectKey(pod.key.namespace, entry.get("resourceClaimName", "")) for entry in entries]


def _node_changed(change: Change) -> bool:
    """Return whether a Node changed in a way that scheduling depends on; heartbeats are ignored."""

    def relevant(record: Record) -> tuple[object, ...]:
        status = record.document.get("status") or {}
        return record.metadata.get("labels"), record.document.get("spec"), status.get("allocatable")

    return change.before is None or relevant(change.before) != relevant(change.record)


def _status(record: Record) -> Document:
    return record.document.get("status") or {}


def _phase(pod: Record) -> str:
    return str(_status(pod).get("phase", ""))


def _protect(document: Document) -> None:
    finalizers = document["metadata"].get("finalizers") or []
    if PROTECTION not in finalizers:
        document["metadata"]["finalizers"] = [*finalizers, PROTECTION]


def _clear(document: Document) -> None:
    document["status"] = {}
