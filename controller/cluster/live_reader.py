"""Reads of single objects from the API server, for decisions that a lagging cache must not make.

A live read precedes every step that takes something away (contract §4). Workloads, Pods and ledgers enter
their cache with what was read. Claims do not: a claim may lack the label by which the cache selects.
"""

from __future__ import annotations

from controller.api.core import Pod
from controller.api.dra import CLAIMS, ResourceClaim
from controller.api.names import pod_name
from controller.api.pods import PODS, full_pod
from controller.api.workload import WORKLOADS, Workload
from controller.cluster.caches import CLAIM_LEDGERS, Caches
from controller.cluster.read_retry import retry_read
from informers.api import Api, ObjectKey, Resource, T
from informers.cache.store import Store
from informers.errors import NotFound
from ledger.claim_names import ledger_name
from ledger.state import ClaimLedger


class LiveReader:
    """Live reads in the workers' namespace. Each returns `None` if the object does not exist."""

    def __init__(self, api: Api, caches: Caches, namespace: str) -> None:
        self._api = api
        self._caches = caches
        self._namespace = namespace

    async def workload(self, name: str) -> Workload | None:
        """Read a Workload."""
        return await self._refresh(WORKLOADS, self._caches.workloads.store, name)

    async def pod(self, name: str) -> Pod | None:
        """Read a Pod."""
        return full_pod(await self._refresh(PODS, self._caches.pods.store, name))

    async def pod_of(self, workload: str) -> Pod | None:
        """Read the Pod that has the name of this worker's Pod, whoever owns it."""
        return await self.pod(pod_name(workload))

    async def claim(self, name: str) -> ResourceClaim | None:
        """Read a ResourceClaim, managed or not."""
        return await self._read(CLAIMS, name)

    async def ledger(self, name: str) -> ClaimLedger | None:
        """Read a ClaimLedger."""
        ledger = await self._read(CLAIM_LEDGERS, name)
        if ledger is not None:
            self._caches.ledgers.store.apply_write(ledger)
        return ledger

    async def ledger_of(self, claim: str) -> ClaimLedger | None:
        """Read the ledger of a claim."""
        return await self.ledger(ledger_name(claim))

    async def _refresh(self, resource: Resource[T], store: Store[T], name: str) -> T | None:
        """Read an object and update the cache, even if the object is gone."""
        cached = store.get(ObjectKey(self._namespace, name))
        obj = await self._read(resource, name)
        if obj is not None:
            store.apply_write(obj)
        elif cached is not None:
            # The next reconcile must not find it in the cache and read it again.
            store.apply_delete(cached)
        return obj

    async def _read(self, resource: Resource[T], name: str) -> T | None:
        try:
            return await retry_read(lambda: self._api.get(resource, name, self._namespace))
        except NotFound:
            return None
