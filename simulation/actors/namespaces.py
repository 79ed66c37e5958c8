"""The namespace controller: empties a namespace that is being deleted, Pods first, and then lets it go.

Source: `pkg/controller/namespace/deletion` of `k8s.io/kubernetes`, with `OrderedNamespaceDeletion` on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from informers.api import ObjectKey, Preconditions, WatchEventType
from simulation.actors.base import Actor
from simulation.apiserver.documents import Record
from simulation.apiserver.kinds import KINDS, NAMESPACES, PODS, Kind
from simulation.apiserver.store import Change


def _nothing(_kind: Kind, _record: Record) -> AbstractContextManager[object]:
    return nullcontext()


class NamespaceController(Actor):
    """Looks at a namespace when its deletion begins, and when something in it goes."""

    name = "namespace"

    around: Callable[[Kind, Record], AbstractContextManager[object]] = staticmethod(_nothing)
    """Entered for each deletion, by whoever has to know of it."""

    def _on_change(self, change: Change) -> None:
        if change.kind is NAMESPACES:
            self._look(change.record.key.name)
        elif change.type is WatchEventType.DELETED and change.kind.namespaced:
            self._look(change.record.key.namespace)

    def _look_at_everything(self) -> None:
        for record in self._stage.server.store.all(NAMESPACES):
            self._look(record.key.name)

    def _look(self, name: str) -> None:
        namespace = self._find(NAMESPACES, ObjectKey("", name))
        if namespace is not None and namespace.deleting:
            seconds, uid = self._stage.delays.garbage_seconds, namespace.uid
            self._later(seconds, uid, namespace.key, lambda: self._empty(name, uid))

    def _empty(self, name: str, uid: str) -> None:
        namespace = self._find(NAMESPACES, ObjectKey("", name), uid)
        if namespace is None:
            return
        store = self._stage.server.store
        others = [kind for kind in KINDS if kind.namespaced and kind is not PODS]
        for kinds in ([PODS], others):
            left = [(kind, record) for kind in kinds for record in store.all(kind, name)]
            for kind, record in left:
                if not record.deleting:
                    self._delete(kind, record)
            if left:
                return  # what is gone by now, too, is told of, and looked at again
        self._stage.server.finalize(namespace)

    def _delete(self, kind: Kind, record: Record) -> None:
        key, unless_other = record.key, Preconditions(record.uid)
        if self._find(kind, key, record.uid) is not None:
            with self.around(kind, record):
                self._stage.server.delete(kind, key.name, key.namespace, preconditions=unless_other)
