"""The ResourceClaim controller: removes the reservations of Pods that no longer use their devices.

The write that removes the last reservation also removes the allocation. A second write removes the finalizer.
Source: `pkg/controller/resourceclaim` of `k8s.io/kubernetes`.
"""

from __future__ import annotations

from informers.api import ObjectKey, WatchEventType
from simulation.actors.base import Actor
from simulation.actors.fitting import FINAL_PHASES
from simulation.actors.scheduler import PROTECTION
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import CLAIMS, PODS
from simulation.apiserver.store import Change


class ClaimController(Actor):
    """Reconciles a claim when it changes, or when a Pod that uses it changes."""

    name = "claims"

    def _on_change(self, change: Change) -> None:
        if change.kind is CLAIMS and change.type is not WatchEventType.DELETED:
            self._enqueue(change.record.key)
        elif change.kind is PODS:
            for entry in change.record.document["spec"].get("resourceClaims") or ():
                name = entry.get("resourceClaimName", "")
                self._enqueue(ObjectKey(change.record.key.namespace, name))

    def _resync(self) -> None:
        for claim in self._context.server.store.all(CLAIMS):
            self._enqueue(claim.key)

    def _enqueue(self, key: ObjectKey) -> None:
        self._schedule(self._context.delays.claim_release_seconds, "sync", key, lambda: self._sync(key))

    def _sync(self, key: ObjectKey) -> None:
        claim = self._get(CLAIMS, key)
        if claim is None:
            return
        status = claim.document.get("status") or {}
        consumers = list(status.get("reservedFor") or ())
        kept = [consumer for consumer in consumers if self._may_use(key.namespace, consumer)]
        protected = PROTECTION in (claim.metadata.get("finalizers") or ())
        if len(kept) == len(consumers) and not (claim.deleting and protected and not kept):
            return
        self._context.server.edit(
            CLAIMS, key, lambda document: _release(document, kept), subresource="status"
        )
        if protected and not kept:
            self._context.server.edit(CLAIMS, key, _unprotect)

    def _may_use(self, namespace: str, consumer: Document) -> bool:
        """Return whether a consumer may still use the devices."""
        pod = self._get(PODS, ObjectKey(namespace, consumer["name"]), consumer["uid"])
        return pod is not None and not _is_done(pod)


def _is_done(pod: Record) -> bool:
    ended = pod.document["status"].get("phase") in FINAL_PHASES
    return ended or (pod.deleting and not pod.document["spec"].get("nodeName"))


def _release(document: Document, kept: list[Document]) -> None:
    status = document.setdefault("status", {})
    if kept:
        status["reservedFor"] = kept
    else:
        document["status"] = {}


def _unprotect(document: Document) -> None:
    finalizers = document["metadata"].get("finalizers") or []
    document["metadata"]["finalizers"] = [item for item in finalizers if item != PROTECTION]
