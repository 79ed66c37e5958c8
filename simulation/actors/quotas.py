"""The ResourceQuota controller: lowers the used counts some time after objects are gone.

Source: `pkg/controller/resourcequota` of `k8s.io/kubernetes`.
"""

from __future__ import annotations

from random import Random

from informers.api import ObjectKey, WatchEventType
from simulation.actors.base import Actor, ActorContext
from simulation.apiserver.admission.quotas import Quota
from simulation.apiserver.kinds import Kind
from simulation.apiserver.store import Change


class QuotaController(Actor):
    """Keeps the counts of all quotas."""

    name = "quotas"

    def __init__(self, context: ActorContext, rng: Random) -> None:
        super().__init__(context, rng)
        self._quotas: list[Quota] = []

    def add(self, quota: Quota) -> None:
        """Apply a quota from now on, with a correct count."""
        quota.recount(self._count)
        self._quotas.append(quota)
        self._context.server.admission.add(quota)

    def remove(self, quota: Quota) -> None:
        """Stop applying a quota."""
        self._quotas.remove(quota)
        self._context.server.admission.remove(quota)

    def _on_change(self, change: Change) -> None:
        for quota in self._quotas:
            if change.type is WatchEventType.DELETED and change.kind is quota.kind:
                self._enqueue(quota)

    def _resync(self) -> None:
        for quota in self._quotas:
            self._enqueue(quota)

    def _enqueue(self, quota: Quota) -> None:
        key = ObjectKey(quota.namespace, quota.kind.plural)
        seconds = self._context.delays.quota_seconds
        self._schedule(seconds, f"recount {quota.name}", key, lambda: quota.recount(self._count))

    def _count(self, kind: Kind, namespace: str) -> int:
        return len(self._context.server.store.all(kind, namespace))
