"""The ResourceClaim controller: takes back reservations of Pods that hold nothing any more.

With the last reservation goes the allocation, in the same write, and then the finalizer that protected it.
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
    """Looks at a claim when it changes, and when a Pod that uses it does."""

    name = "claims"

    def _on_change(self, change: Change) -> None:
        if change.kind is CLAIMS and change.type is not WatchEventType.DELETED:
            self._look(change.record.key)
        elif change.kind is PODS:
            for entry in change.record.document["spec"].get("resourceClaims") or ():
                name = entry.get("resourceClaimName", "")
                self._look(ObjectKey(change.record.key.namespace, name))

    def _look_at_everything(self) -> None:
        for claim in self._stage.server.store.all(CLAIMS):
            self._look(claim.key)

    def _look(self, key: ObjectKey) -> None:
        self._later(self._stage.delays.claim_release_seconds, "sync", key, lambda: self._sync(key))

    def _sync(self, key: ObjectKey) -> None:
        claim = self._find(CLAIMS, key)
        if claim is None:
            return
        status = claim.document.get("status") or {}
        consumers = list(status.get("reservedFor") or ())
        kept = [consumer for consumer in consumers if self._holds(key.namespace, consumer)]
        protected = PROTECTION in (claim.metadata.get("finalizers") or ())
        if len(kept) == len(consumers) and not (claim.deleting and protected and not kept):
            return
        self._stage.server.edit(CLAIMS, key, lambda document: _release(document, kept), subresource="status")
        if protected and not kept:
            self._stage.server.edit(CLAIMS, key, _unprotect)

    def _holds(self, namespace: str, consumer: Document) -> bool:
        """Whether a consumer may still use the devices."""
        pod = self._find(PODS, ObjectKey(namespace, consumer["name"]), consumer["uid"])
        return pod is not None and not _done(pod)


def _done(pod: Record) -> bool:
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
