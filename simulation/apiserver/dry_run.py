"""Dry runs: all rules apply, but nothing is stored and no watch is notified."""

from __future__ import annotations

import copy

from informers.api import ObjectKey
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import Kind
from simulation.apiserver.server import ApiServer
from simulation.apiserver.store import Store


class _DryRunStore(Store):
    """Reads from another store. Writes return a result but have no effect."""

    def __init__(self, real: Store) -> None:
        super().__init__()
        self._real = real

    def all(self, kind: Kind, namespace: str = "") -> list[Record]:
        """See `Store`."""
        return self._real.all(kind, namespace)

    def get(self, kind: Kind, key: ObjectKey) -> Record | None:
        """See `Store`."""
        return self._real.get(kind, key)

    def put(self, kind: Kind, document: Document) -> Record:  # noqa: ARG002 - as in `Store`
        """Return the object as it would be stored, at its current version."""
        return Record(document)

    def remove(self, kind: Kind, key: ObjectKey) -> Record:
        """Return the object that would be removed."""
        record = self._real.get(kind, key)
        assert record is not None, "the server checks that it exists"  # noqa: S101 - for the type checker
        return record


def dry_run_server(server: ApiServer) -> ApiServer:
    """Return a copy of the server whose writes have no effect, for one request."""
    dry_run = copy.copy(server)
    dry_run.is_dry_run = True
    dry_run.store = _DryRunStore(server.store)
    return dry_run
