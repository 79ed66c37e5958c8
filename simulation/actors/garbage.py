"""Garbage collection: of objects whose owners are all gone, and of Pods whose node is.

Owners are looked up by UID, so that an object of the same name is no owner. Sources: "Garbage collection" of
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
    """Looks at an object when it comes, when its owners change, and when one of them goes."""

    name = "garbage"

    def _on_change(self, change: Change) -> None:
        if change.type is WatchEventType.DELETED:
            for kind, record in self._owned_by(change.record.uid):
                self._look(kind, record)
        elif change.record.metadata.get("ownerReferences"):
            self._look(change.kind, change.record)
        if change.kind is NODES and change.type is WatchEventType.DELETED:
            self._look_at_pods()

    def _look_at_everything(self) -> None:
        for kind in KINDS:
            for record in self._stage.server.store.all(kind):
                self._look(kind, record)
        self._look_at_pods()

    def _owned_by(self, uid: str) -> list[tuple[Kind, Record]]:
        return [
            (kind, record)
            for kind in KINDS
            for record in self._stage.server.store.all(kind)
            if any(owner["uid"] == uid for owner in _owners(record))
        ]

    def _look(self, kind: Kind, record: Record) -> None:
        seconds, key, uid = self._stage.delays.garbage_seconds, record.key, record.uid
        self._later(seconds, f"{kind} {uid}", key, lambda: self._collect(kind, key, uid))

    def _collect(self, kind: Kind, key: ObjectKey, uid: str) -> None:
        record = self._find(kind, key, uid)
        owners = _owners(record) if record is not None else []
        present = [owner for owner in owners if self._is_there(owner, key.namespace)]
        if record is None or len(present) == len(owners):
            return
        if present:
            self._stage.server.edit(kind, key, lambda document: _own(document, present))
        elif not record.deleting:
            self._stage.server.delete(kind, key.name, key.namespace, preconditions=Preconditions(uid))

    def _is_there(self, owner: Document, namespace: str) -> bool:
        kind = kind_named(owner["apiVersion"], owner["kind"])
        if kind is None:
            return False
        key = ObjectKey(namespace if kind.namespaced else "", owner["name"])
        return self._find(kind, key, owner["uid"]) is not None

    # Pods whose node is gone: nobody else will end them.

    def _look_at_pods(self) -> None:
        for pod in self._stage.server.store.all(PODS):
            if pod.document["spec"].get("nodeName"):
                self._look_at_pod(pod.key, pod.uid)

    def _look_at_pod(self, key: ObjectKey, uid: str) -> None:
        seconds = self._stage.delays.orphaned_pod_seconds
        self._later(seconds, f"orphan {uid}", key, lambda: self._end(key, uid))

    def _end(self, key: ObjectKey, uid: str) -> None:
        pod = self._find(PODS, key, uid)
        if pod is None or self._find(NODES, ObjectKey("", pod.document["spec"]["nodeName"])) is not None:
            return

        def change(document: Document) -> None:
            status = document["status"]
            status["phase"] = "Failed"
            status["conditions"] = condition(
                status, "DisruptionTarget", "True", moment=self._moment(), reason="DeletionByPodGC"
            )

        if pod.document["status"].get("phase") not in FINAL_PHASES:
            self._stage.server.edit(PODS, key, change, subresource="status")
        self._stage.server.delete(PODS, key.name, key.namespace, grace_seconds=0)


def _owners(record: Record) -> list[Document]:
    return list(record.metadata.get("ownerReferences") or ())


def _own(document: Document, owners: list[Document]) -> None:
    document["metadata"]["ownerReferences"] = owners
