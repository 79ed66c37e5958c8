"""Dry runs: every rule is applied, nothing is kept and nobody hears of it."""

from __future__ import annotations

import copy

from informers.api import ObjectKey
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import Kind
from simulation.apiserver.server import ApiServer
from simulation.apiserver.store import Store


class _Untouched(Store):
    """Reads what another store holds; writes are answered as if, and forgotten."""

    def __init__(self, real: Store) -> None:
        super().__init__()
        self._real = real

    def get(self, kind: Kind, key: ObjectKey) -> Record | None:
        """See `Store`."""
        return self._real.get(kind, key)

    def put(self, kind: Kind, document: Document) -> Record:  # noqa: ARG002 - as in `Store`
        """The object as it would be, at the version that it has."""
        return Record(document)

    def remove(self, kind: Kind, key: ObjectKey) -> Record:
        """The object that would go."""
        record = self._real.get(kind, key)
        assert record is not None, "the server has looked it up"  # noqa: S101 - for the type checker
        return record


def rehearsal(server: ApiServer) -> ApiServer:
    """The same server, whose writes have no effect. For one request."""
    rehearsing = copy.copy(server)
    rehearsing.store = _Untouched(server.store)
    return rehearsing
