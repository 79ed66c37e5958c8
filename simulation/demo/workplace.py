"""What a user and an administrator do to a cluster in a story, through the production client.

The kinds that a story reads and writes, as whole documents: what is shown is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from informers.api import Api, Resource, Selectors
from informers.client.decoding import Identity
from informers.errors import NotFound
from ledger.names import MANAGED_SELECTOR
from simulation.apiserver import kinds
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind
from simulation.demo.cluster_view import ClusterView, read_view

_EVERYTHING = Selectors()
OURS = Selectors(labels=MANAGED_SELECTOR)


class Workplace:
    """One workers' namespace and the nodes. Methods raise what `informers.api.Api` does."""

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
        """Ask for the deletion of a Workload."""
        await self._api.delete(WORKLOADS, name, self._namespace)

    async def look(self) -> ClusterView:
        """How things are. The lists are read one after the other."""
        return read_view(
            await self._list(WORKLOADS), await self._list(LEDGERS), await self._list(CLAIMS, OURS)
        )

    async def drain(self, node: str) -> None:
        """Close a node to new Pods and delete the workers' Pods that are there, as `kubectl drain` does."""
        await self._cordon(node, on=True)
        for pod in await self._list(PODS, Selectors(fields=f"spec.nodeName={node}")):
            with suppress(NotFound):  # it went by itself
                await self._api.delete(PODS, pod["metadata"]["name"], self._namespace)

    async def reopen(self, node: str) -> None:
        """Open a node again, as `kubectl uncordon` does."""
        await self._cordon(node, on=False)

    async def _cordon(self, node: str, *, on: bool) -> None:
        await self._api.patch(NODES, node, {"spec": {"unschedulable": True if on else None}})

    async def _list(self, resource: Resource[Whole], selectors: Selectors = _EVERYTHING) -> list[Document]:
        page = await self._api.list_page(resource, self._namespace, selectors=selectors)
        return [item.document for item in page.items]


@dataclass(frozen=True)
class Whole:
    """An object as it came."""

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
