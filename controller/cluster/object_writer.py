"""Every write that the controller makes outside of the ledgers, each with its precondition.

An answer enters the cache at once (read your writes), so that the next decision is made on it. So does a
Workload or Pod that a write conflicted with, read again: a watch may bring it late, and wakes nobody for an
edit of labels. Reads past the cache are here too: they precede whatever takes something away
(contract §4).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from controller.api.core import Pod
from controller.api.documents import ledger_reference
from controller.api.dra import CLAIMS, ResourceClaim
from controller.api.pods import PODS, AnyPod, full_pod
from controller.api.workload import WORKLOADS, Workload
from controller.cluster.caches import Caches
from controller.cluster.live_reader import LiveReader
from informers.api import Api, Json, Preconditions
from informers.errors import ApiError, Conflict, NotFound
from ledger.names import MANAGED_LABEL, MANAGED_VALUE
from ledger.state import ClaimLedger


class WorkloadGone(NotFound):
    """The Workload was deleted while it was reconciled: there is nothing left to do for it."""


class ObjectWriter:
    """Conditional writes and fresh reads of Workloads, Pods and ResourceClaims."""

    def __init__(self, api: Api, caches: Caches, live: LiveReader) -> None:
        self._api = api
        self._caches = caches
        self._live = live

    async def set_finalizers(self, workload: Workload, finalizers: tuple[str, ...]) -> Workload:
        """Replace the finalizers on the version that was read. Raises `Conflict`, `WorkloadGone`."""
        meta = workload.metadata
        patch = {
            "metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "finalizers": list(finalizers),
            }
        }
        written = await self._patch_workload(workload, patch)
        if written.metadata.deletion_timestamp is not None and not written.metadata.finalizers:
            # The last finalizer went, and the object with it.
            self._caches.workloads.store.apply_delete(workload, answer=written)
        else:
            self._caches.workloads.store.apply_write(written)
        return written

    async def write_status(self, workload: Workload, patch: Json) -> Workload:
        """Patch the status; the patch carries UID and version. Raises `Conflict`, `WorkloadGone`."""
        written = await self._patch_workload(workload, patch, subresource="status")
        self._caches.workloads.store.apply_write(written)
        return written

    async def _patch_workload(self, workload: Workload, patch: Json, *, subresource: str = "") -> Workload:
        meta = workload.metadata
        try:
            return await self._api.patch(WORKLOADS, meta.name, patch, meta.namespace, subresource=subresource)
        except Conflict:
            # Another error is no news here: whoever tries again on what the cache shows comes by once more.
            with suppress(ApiError):
                await self._live.workload(workload.name)
            raise
        except NotFound as error:
            self._caches.workloads.store.apply_delete(workload)
            raise WorkloadGone(error.message, status=error.status, reason=error.reason) from error

    async def create_claim(self, document: dict[str, Any]) -> ResourceClaim:
        """Create a ResourceClaim. Raises `AlreadyExists`."""
        created = await self._api.create(CLAIMS, document, document["metadata"]["namespace"])
        self._caches.claims.store.apply_write(created)
        return created

    async def repoint_claim(self, claim: ResourceClaim, ledger: ClaimLedger) -> ResourceClaim:
        """Make a ledger the owner of its live claim, labelled as ours. Raises `Conflict`, `NotFound`."""
        meta = claim.metadata
        patch = {
            "metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "labels": {MANAGED_LABEL: MANAGED_VALUE},
                "ownerReferences": [ledger_reference(meta.name, ledger.metadata.uid)],
            }
        }
        return await self._patch_claim(claim, patch)

    async def manage_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Put back the label by which a claim of ours is seen. Raises `Conflict`, `NotFound`."""
        meta = claim.metadata
        labels = {MANAGED_LABEL: MANAGED_VALUE}
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "labels": labels}}
        return await self._patch_claim(claim, patch)

    async def _patch_claim(self, claim: ResourceClaim, patch: Json) -> ResourceClaim:
        written = await self._api.patch(CLAIMS, claim.metadata.name, patch, claim.metadata.namespace)
        self._caches.claims.store.apply_write(written)
        return written

    async def create_pod(self, document: dict[str, Any]) -> AnyPod:
        """Create a Pod; typos in the preserved template are refused. Raises `AlreadyExists`, `Invalid`, …."""
        created = await self._api.create(PODS, document, document["metadata"]["namespace"], strict=True)
        self._caches.pods.store.apply_write(created)
        return created

    async def delete_pod(self, pod: Pod, *, on_version: bool = False) -> bool:
        """Delete a Pod by its UID, with its own grace period; returns whether it is gone by the answer.

        `on_version` makes it hold only for the state that was read. Raises `Conflict` where something
        happened to that state, or where the server refuses with 409 although the Pod is there.
        """
        meta = pod.metadata
        preconditions = Preconditions(meta.uid, meta.resource_version if on_version else None)
        try:
            left = full_pod(
                await self._api.delete(PODS, meta.name, meta.namespace, preconditions=preconditions)
            )
        except NotFound:
            left = None
        except Conflict:
            if on_version:
                with suppress(ApiError):
                    await self._live.pod(meta.name)
                raise
            found = await self._live.pod(meta.name)
            if found is not None and found.metadata.uid == meta.uid:
                raise
            # Only the UID was asked for, and the Pod of that name is another one.
            left = None
        # The server removes an unbound Pod at once: there is no kubelet to wait for.
        gone = left is None or not (left.bound or left.metadata.finalizers)
        if left is not None and not gone:
            self._caches.pods.store.apply_write(left)
        else:
            self._caches.pods.store.apply_delete(pod, answer=left)
        return gone
