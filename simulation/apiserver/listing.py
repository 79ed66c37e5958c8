"""Paginated lists. All pages show the objects at the revision of the first page, or expire (410)."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import anyio
import msgspec

from informers.api import Selectors, version_number
from simulation.apiserver import refusals
from simulation.apiserver.documents import Record
from simulation.apiserver.kinds import Kind
from simulation.apiserver.replicas import Replicas
from simulation.apiserver.selectors import compile_selectors
from simulation.apiserver.store import Store


@dataclass(frozen=True)
class ListPage:
    """One page of a list at one revision. `continue_token` is empty on the last page."""

    records: tuple[Record, ...]
    resource_version: str
    continue_token: str

    @property
    def data(self) -> bytes:
        """The list as sent over the wire."""
        metadata = {"resourceVersion": self.resource_version, "continue": self.continue_token}
        items = [msgspec.Raw(record.data) for record in self.records]
        return msgspec.json.encode({"metadata": metadata, "items": items})


@dataclass(frozen=True)
class _Continuation:
    revision: int
    records: tuple[Record, ...]
    scope: str
    """What the list selects, so that tokens of different lists differ."""


class Listing:
    """Serves lists from a store."""

    def __init__(self, store: Store, replicas: Replicas) -> None:
        self._store = store
        self._replicas = replicas
        self._continuations: dict[str, _Continuation] = {}

    def __repr__(self) -> str:
        return f"<Listing open={len(self._continuations)}>"

    def first_page(
        self, kind: Kind, namespace: str, selectors: Selectors, resource_version: str, limit: int
    ) -> ListPage:
        """Return the first page of the current objects or, given a version, of those that a replica has seen.

        Raises `Refusal` 504 if no replica has reached that version.
        """
        requested = _parse_version(resource_version)
        revision = self._revision_of_cache() if resource_version else self._store.revision
        if requested > revision:
            raise refusals.too_large(requested, revision)
        matches = compile_selectors(kind, selectors)
        current = revision == self._store.revision or revision < self._store.compacted
        records = (
            self._store.all(kind, namespace) if current else self._store.all_at(kind, namespace, revision)
        )
        self._replicas.stale_lists_total += not current
        found = [record for record in records if matches(record.document)]
        # A list that need not be consistent is served from the watch cache, which has no pages of its own.
        scope = f"{kind}/{namespace}?{selectors.labels}&{selectors.fields}"
        return self._page(
            _Continuation(self._store.revision if current else revision, tuple(found), scope), limit
        )

    def _revision_of_cache(self) -> int:
        replica = self._replicas.choose()
        newest = self._store.revision
        return newest if replica is None else replica.revision(anyio.current_time(), newest)

    def next_page(self, token: str, limit: int) -> ListPage:
        """Return the page for a token. Raises `Refusal` 410 if it has expired, 400 if it is invalid."""
        continuation = self._continuations.get(token)
        if continuation is None:
            raise refusals.bad_request("continue key is not valid")
        if continuation.revision < self._store.compacted:
            text = "The provided continue parameter is too old to display a consistent list result."
            raise refusals.expired(text)
        return self._page(continuation, limit)

    def _page(self, continuation: _Continuation, limit: int) -> ListPage:
        version = str(continuation.revision)
        if not limit or len(continuation.records) <= limit:
            return ListPage(continuation.records, version, "")
        page, left = continuation.records[:limit], continuation.records[limit:]
        place = {"rv": continuation.revision, "scope": continuation.scope, "start": str(page[-1].key)}
        token = base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()
        self._continuations[token] = _Continuation(continuation.revision, left, continuation.scope)
        return ListPage(page, version, token)


def _parse_version(resource_version: str) -> int:
    try:
        return version_number(resource_version)
    except ValueError as error:
        text = f'resourceVersion: Invalid value: "{resource_version}": not a number'
        raise refusals.bad_request(text) from error
