"""Every write of the controller outside the ledgers, each with its precondition.

The answer to a write enters the cache at once, so that the next decision sees it. After a conflict, the
Workload or Pod is read, and the result enters the cache too. Its watch event may be late, and a label edit
activates no worker.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from controller.api.claim_document import ledger_reference
from controller.api.core import Pod
from controller.api.dra import CLAIMS, ResourceClaim
from controller.api.pods import PODS, full_pod
from controller.api.workload import WORKLOADS, Workload, WorkloadMetadata
from controller.cluster.caches import Caches
from controller.cluster.creations import Creations, refusable
from controller.cluster.live_reader import LiveReader
from informers.api import Api, Json, Preconditions
from informers.client.decoding import Metadata
from informers.errors import ApiError, Conflict, NotFound
from ledger.claim_names import MANAGED_LABEL, MANAGED_VALUE
from ledger.state import CLAIM_LEDGERS_KIND, ClaimLedger


class WorkloadGone(NotFound):
    """The Workload was deleted during its reconcile: there is nothing left to do for it."""


class ObjectWriter:
    """Conditional writes of Workloads, Pods and ResourceClaims.

    Every patch and deletion may raise `WriteRefused`.
    """

    def __init__(self, api: Api, caches: Caches, live: LiveReader) -> None:
        self._api = api
        self._caches = caches
        self._live = live
        self._creations = Creations()

    async def set_finalizers(self, workload: Workload, finalizers: tuple[str, ...]) -> Workload:
        """Replace the finalizers on the version that was read. Raises `Conflict`, `WorkloadGone`."""
        patch = _metadata_patch(workload.metadata, finalizers=list(finalizers))
        written = await self._patch_workload(workload, patch)
        if written.metadata.deletion_timestamp is not None and not written.metadata.finalizers:
            # The server deletes the object together with its last finalizer.
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
            with refusable():
                return await self._api.patch(
                    WORKLOADS, meta.name, patch, meta.namespace, subresource=subresource
                )
        except Conflict:
            # A failed read is ignored: the retry would conflict on the cached version and read again.
            with suppress(ApiError):
                await self._live.workload(meta.name)
            raise
        except NotFound as error:
            self._caches.workloads.store.apply_delete(workload)
            raise WorkloadGone(error.message, status=error.status, reason=error.reason) from error

    async def create_claim(self, document: dict[str, Any]) -> ResourceClaim:
        """Create a ResourceClaim. Raises `AlreadyExists`, `CreationRefused`."""
        meta = document["metadata"]
        with self._creations.of(CLAIMS.kind, meta["name"]):
            created = await self._api.create(CLAIMS, document, meta["namespace"])
        self._caches.claims.store.apply_write(created)
        return created

    async def set_claim_owner(self, claim: ResourceClaim, ledger: ClaimLedger) -> ResourceClaim:
        """Make a ledger the owner of its live claim and label the claim. Raises `Conflict`, `NotFound`.

        The ledger replaces an earlier ledger. Owners of other kinds stay: a merge patch sends the whole list.
        """
        others = [
            msgspec.to_builtins(owner)
            for owner in claim.metadata.owner_references
            if owner.kind != CLAIM_LEDGERS_KIND
        ]
        owner = ledger_reference(claim.metadata.name, ledger.metadata.uid)
        labels = {MANAGED_LABEL: MANAGED_VALUE}
        return await self._patch_claim(claim, labels=labels, ownerReferences=[*others, owner])

    async def label_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Restore the label by which the cache selects our claims. Raises `Conflict`, `NotFound`."""
        return await self._patch_claim(claim, labels={MANAGED_LABEL: MANAGED_VALUE})

    async def _patch_claim(self, claim: ResourceClaim, **fields: object) -> ResourceClaim:
        meta = claim.metadata
        patch = _metadata_patch(meta, **fields)
        with refusable():
            written = await self._api.patch(CLAIMS, meta.name, patch, meta.namespace)
        self._caches.claims.store.apply_write(written)
        return written

    async def create_pod(self, document: dict[str, Any]) -> Pod:
        """Create a worker's Pod with strict field validation: the preserved template may contain typos.

        Returns the Pod as admission made it. Raises `AlreadyExists`, `CreationRefused`, `Invalid` and
        `BadRequest` if it is malformed, and other API errors.
        """
        meta = document["metadata"]
        with self._creations.of(PODS.kind, meta["name"]):
            created = await self._api.create(PODS, document, meta["namespace"], strict=True)
        self._caches.pods.store.apply_write(created)
        pod = full_pod(created)
        if pod is None:
            raise AssertionError(f"{created.metadata.name} is not decoded as a worker's Pod")
        return pod

    async def probe_pod(self, document: dict[str, Any]) -> None:
        """Ask the server whether it would create this Pod; nothing is stored."""
        await self._api.create(PODS, document, document["metadata"]["namespace"], strict=True, dry_run=True)

    async def probe_claim(self, document: dict[str, Any]) -> None:
        """Ask the server whether it would create this ResourceClaim; nothing is stored."""
        await self._api.create(CLAIMS, document, document["metadata"]["namespace"], dry_run=True)

    async def delete_pod(self, pod: Pod, *, on_version: bool = False) -> bool:
        """Delete a Pod by its UID, with its own grace period. Return whether the answer proves it gone.

        With `on_version` the delete applies only to the version that was read. Raises `Conflict` if the Pod
        has changed since, or if the server refuses with 409 although the Pod exists.
        """
        meta = pod.metadata
        preconditions = Preconditions(meta.uid, meta.resource_version if on_version else None)
        left: Pod | None = None
        try:
            with refusable():
                answer = await self._api.delete(PODS, meta.name, meta.namespace, preconditions=preconditions)
            left = full_pod(answer)
        except NotFound:
            pass
        except Conflict:
            if on_version:
                with suppress(ApiError):
                    await self._live.pod(meta.name)
                raise
            live = await self._live.pod(meta.name)
            if live is not None and live.metadata.uid == meta.uid:
                raise
            # Only the UID was a precondition, so the Pod of that name now has another UID.
        # The server removes an unbound Pod at once, because it has no kubelet to wait for.
        gone = left is None or not (left.bound or left.metadata.finalizers)
        if left is not None and not gone:
            self._caches.pods.store.apply_write(left)
        else:
            self._caches.pods.store.apply_delete(pod, answer=left)
        return gone


def _metadata_patch(meta: Metadata | WorkloadMetadata, **fields: object) -> dict[str, Any]:
    """Return a merge patch of metadata fields that applies only to the version that was read."""
    return {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, **fields}}
