"""The objects at one integer revision, and the history of their changes.

Invariant: every write gets the next revision and notifies the subscribers in the same step. Reads at an
earlier revision are possible until it is compacted. The server, not the store, validates writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from informers.api import ObjectKey, WatchEventType
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import Kind

FIRST_REVISION = 100
"""A new server starts with a compacted history, as a real one does."""


@dataclass(frozen=True)
class Change:
    """One write. `record` is the state after it, or for a deletion the last state, at its revision."""

    revision: int
    type: WatchEventType
    kind: Kind
    record: Record
    before: Record | None

    def __str__(self) -> str:
        return f"{self.revision} {self.type.value} {self.kind} {self.record.key}"


Subscriber = Callable[[Change], None]


@dataclass(frozen=True)
class StoreStatistics:
    """Sizes and counts."""

    objects: int
    revision: int
    compacted: int
    changes: int


class Store:
    """Records by kind and key. All methods are synchronous, so that a write is atomic."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[ObjectKey, Record]] = {}
        self._history: list[Change] = []
        self._subscribers: list[Subscriber] = []
        self._revision = FIRST_REVISION
        self._compacted = FIRST_REVISION

    def __repr__(self) -> str:
        return f"<Store revision={self._revision} objects={self.statistics().objects}>"

    @property
    def revision(self) -> int:
        """The revision of the last write."""
        return self._revision

    @property
    def compacted(self) -> int:
        """The last revision whose changes are compacted."""
        return self._compacted

    def statistics(self) -> StoreStatistics:
        """Return current sizes and counts."""
        objects = sum(len(records) for records in self._objects.values())
        return StoreStatistics(objects, self._revision, self._compacted, len(self._history))

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` in the step of each write. It must neither raise nor write."""
        self._subscribers.append(subscriber)

    def get(self, kind: Kind, key: ObjectKey) -> Record | None:
        """Return the object of a key, or `None`."""
        return self._objects.get(kind, {}).get(key)

    def all(self, kind: Kind, namespace: str = "") -> list[Record]:
        """Return the objects of a kind, ordered by key; of all namespaces if `namespace` is empty."""
        records = self._objects.get(kind, {})
        return [records[key] for key in sorted(records) if not namespace or key.namespace == namespace]

    def all_at(self, kind: Kind, namespace: str, revision: int) -> list[Record]:
        """Return the objects of a kind at an earlier revision, which must not be compacted."""
        records = dict(self._objects.get(kind, {}))
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            if change.kind is not kind:
                continue
            if change.before is None:
                records.pop(change.record.key, None)
            else:
                records[change.record.key] = change.before
        return [records[key] for key in sorted(records) if not namespace or key.namespace == namespace]

    def put(self, kind: Kind, document: Document) -> Record:
        """Create or replace an object. The store takes ownership of the document."""
        self._revision += 1
        document["metadata"]["resourceVersion"] = str(self._revision)
        record = Record(document)
        before = self.get(kind, record.key)
        self._objects.setdefault(kind, {})[record.key] = record
        kept = WatchEventType.MODIFIED if before is not None else WatchEventType.ADDED
        self._notify(Change(self._revision, kept, kind, record, before))
        return record

    def remove(self, kind: Kind, key: ObjectKey) -> Record:
        """Remove an object and return its last state, at the revision of the removal."""
        before = self._objects[kind].pop(key)
        self._revision += 1
        document = before.copy()
        document["metadata"]["resourceVersion"] = str(self._revision)
        record = Record(document)
        self._notify(Change(self._revision, WatchEventType.DELETED, kind, record, before))
        return record

    def changes_after(self, revision: int) -> Iterator[Change]:
        """Yield the changes after `revision`, which must not be compacted."""
        first = bisect_right(self._history, revision, key=lambda change: change.revision)
        return iter(self._history[first:])

    def compact(self, revision: int | None = None) -> None:
        """Drop the changes up to `revision`, by default all."""
        # The compacted revision never goes back.
        self._compacted = max(self._compacted, self._revision if revision is None else revision)
        self._history = list(self.changes_after(self._compacted))

    def _notify(self, change: Change) -> None:
        self._history.append(change)
        for subscriber in self._subscribers:
            subscriber(change)
