"""The actions of a user and an administrator in a story, through the production client.

Objects are read and written as whole documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from informers.api import Api, Resource, Selectors
from informers.client.decoding import Identity
from informers.errors import NotFound
from ledger.claim_names import MANAGED_SELECTOR
from simulation.apiserver import kinds
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind
from simulation.demo.cluster_view import ClusterView, read_view

_EVERYTHING = Selectors()
MANAGED = Selectors(labels=MANAGED_SELECTOR)


class Workplace:
    """The workers' namespace and the nodes of a cluster. Methods raise what `informers.api.Api` raises."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def __repr__(self) -> str:
        return f"<Workplace {self._namespace}>"

    async def submit(self, workloads: Iterable[Document]) -> None:
        """Create Workloads."""
        for body in workloads:
            await self._api.create(WORKLOADS, body, self._namespace, strict=True)

    async def delete(self, name: str) -> None:
        """Delete a Workload."""
        await self._api.delete(WORKLOADS, name, self._namespace)

    async def view(self) -> ClusterView:
        """Return the current view. The lists are read sequentially."""
        return read_view(
            await self._list(WORKLOADS), await self._list(LEDGERS), await self._list(CLAIMS, MANAGED)
        )

    async def drain(self, node: str) -> None:
        """Cordon a node and delete the workers' Pods on it, as `kubectl drain` does."""
        await self._cordon(node, on=True)
        for pod in await self._list(PODS, Selectors(fields=f"spec.nodeName={node}")):
            with suppress(NotFound):  # it is already gone
                await self._api.delete(PODS, pod["metadata"]["name"], self._namespace)

    async def uncordon(self, node: str) -> None:
        """Uncordon a node, as `kubectl uncordon` does."""
        await self._cordon(node, on=False)

    async def _cordon(self, node: str, *, on: bool) -> None:
        await self._api.patch(NODES, node, {"spec": {"unschedulable": True if on else None}})

    async def _list(self, resource: Resource[Whole], selectors: Selectors = _EVERYTHING) -> list[Document]:
        page = await self._api.list_page(resource, self._namespace, selectors=selectors)
        return [item.document for item in page.items]


@dataclass(frozen=True)
class Whole:
    """An object with all its fields."""

    metadata: Identity
    document: Document


def _whole(data: bytes) -> Whole:
    document: Document = msgspec.json.decode(data)
    return Whole(msgspec.convert(document["metadata"], Identity), document)


def _resource(kind: Kind) -> Resource[Whole]:
    return Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced, _whole)


WORKLOADS = _resource(kinds.WORKLOADS)
LEDGERS = _resource(kinds.LEDGERS)
CLAIMS = _resource(kinds.CLAIMS)
PODS = _resource(kinds.PODS)
NODES = _resource(kinds.NODES)
