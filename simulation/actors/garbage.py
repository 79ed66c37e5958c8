"""Garbage collection of objects without a living owner, and of Pods without a node.

Owners are matched by UID, so another object of the same name is no owner. Sources: "Garbage collection" of
the Kubernetes documentation; `pkg/controller/podgc` of `k8s.io/kubernetes`.
"""

from __future__ import annotations

from informers.api import ObjectKey, Preconditions, WatchEventType
from simulation.actors.base import Actor, condition
from simulation.actors.fitting import FINAL_PHASES
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import KINDS, NODES, PODS, Kind, kind_named
from simulation.apiserver.store import Change


class GarbageCollector(Actor):
    """Reconciles an object when it or its owner references change, and when an owner is deleted."""

    name = "garbage"

    def _on_change(self, change: Change) -> None:
        if change.type is WatchEventType.DELETED:
            for kind, record in self._owned_by(change.record.uid):
                self._enqueue(kind, record)
        elif change.record.metadata.get("ownerReferences"):
            self._enqueue(change.kind, change.record)
        if change.kind is NODES and change.type is WatchEventType.DELETED:
            self._enqueue_pods()

    def _resync(self) -> None:
        for kind in KINDS:
            for record in self._context.server.store.all(kind):
                self._enqueue(kind, record)
        self._enqueue_pods()

    def _owned_by(self, uid: str) -> list[tuple[Kind, Record]]:
        return [
            (kind, record)
            for kind in KINDS
            for record in self._context.server.store.all(kind)
            if any(owner["uid"] == uid for owner in _owners(record))
        ]

    def _enqueue(self, kind: Kind, record: Record) -> None:
        seconds, key, uid = self._context.delays.garbage_seconds, record.key, record.uid
        self._schedule(seconds, f"{kind} {uid}", key, lambda: self._collect(kind, key, uid))

    def _collect(self, kind: Kind, key: ObjectKey, uid: str) -> None:
        record = self._get(kind, key, uid)
        owners = _owners(record) if record is not None else []
        present = [owner for owner in owners if self._exists(owner, key.namespace)]
        if record is None or len(present) == len(owners):
            return
        if present:
            self._context.server.edit(kind, key, lambda document: _set_owners(document, present))
        elif not record.deleting:
            self._context.server.delete(kind, key.name, key.namespace, preconditions=Preconditions(uid))

    def _exists(self, owner: Document, namespace: str) -> bool:
        kind = kind_named(owner["apiVersion"], owner["kind"])
        if kind is None:
            return False
        key = ObjectKey(namespace if kind.namespaced else "", owner["name"])
        return self._get(kind, key, owner["uid"]) is not None

    # Pods on a deleted node: no kubelet ends them.

    def _enqueue_pods(self) -> None:
        for pod in self._context.server.store.all(PODS):
            if pod.document["spec"].get("nodeName"):
                self._enqueue_pod(pod.key, pod.uid)

    def _enqueue_pod(self, key: ObjectKey, uid: str) -> None:
        seconds = self._context.delays.orphaned_pod_seconds
        self._schedule(seconds, f"orphan {uid}", key, lambda: self._end(key, uid))

    def _end(self, key: ObjectKey, uid: str) -> None:
        pod = self._get(PODS, key, uid)
        if pod is None or self._get(NODES, ObjectKey("", pod.document["spec"]["nodeName"])) is not None:
            return

        def change(document: Document) -> None:
            status = document["status"]
            status["phase"] = "Failed"
            status["conditions"] = condition(
                status, "DisruptionTarget", "True", timestamp=self._timestamp(), reason="DeletionByPodGC"
            )

        if pod.document["status"].get("phase") not in FINAL_PHASES:
            self._context.server.edit(PODS, key, change, subresource="status")
        self._context.server.delete(PODS, key.name, key.namespace, grace_seconds=0)


def _owners(record: Record) -> list[Document]:
    return list(record.metadata.get("ownerReferences") or ())


def _set_owners(document: Document, owners: list[Document]) -> None:
    document["metadata"]["ownerReferences"] = owners
