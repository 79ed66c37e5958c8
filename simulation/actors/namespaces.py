"""The namespace controller: empties a terminating namespace, Pods first, and then removes its finalizer.

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


def _no_hook(_kind: Kind, _record: Record) -> AbstractContextManager[object]:
    return nullcontext()


class NamespaceController(Actor):
    """Reconciles a namespace when its deletion begins, and when an object in it is deleted."""

    name = "namespace"

    deletion_hook: Callable[[Kind, Record], AbstractContextManager[object]] = staticmethod(_no_hook)
    """The context manager that each deletion runs in."""

    def _on_change(self, change: Change) -> None:
        if change.kind is NAMESPACES:
            self._enqueue(change.record.key.name)
        elif change.type is WatchEventType.DELETED and change.kind.namespaced:
            self._enqueue(change.record.key.namespace)

    def _resync(self) -> None:
        for record in self._context.server.store.all(NAMESPACES):
            self._enqueue(record.key.name)

    def _enqueue(self, name: str) -> None:
        namespace = self._get(NAMESPACES, ObjectKey("", name))
        if namespace is not None and namespace.deleting:
            seconds, uid = self._context.delays.garbage_seconds, namespace.uid
            self._schedule(seconds, uid, namespace.key, lambda: self._empty(name, uid))

    def _empty(self, name: str, uid: str) -> None:
        namespace = self._get(NAMESPACES, ObjectKey("", name), uid)
        if namespace is None:
            return
        store = self._context.server.store
        others = [kind for kind in KINDS if kind.namespaced and kind is not PODS]
        for kinds in ([PODS], others):
            left = [(kind, record) for kind in kinds for record in store.all(kind, name)]
            for kind, record in left:
                if not record.deleting:
                    self._delete(kind, record)
            if left:
                return  # each deletion enqueues the namespace again
        self._context.server.finalize(namespace)

    def _delete(self, kind: Kind, record: Record) -> None:
        key, unless_other = record.key, Preconditions(record.uid)
        if self._get(kind, key, record.uid) is not None:
            with self.deletion_hook(kind, record):
                self._context.server.delete(kind, key.name, key.namespace, preconditions=unless_other)
