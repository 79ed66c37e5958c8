"""A store that records the changes it reports, and helpers for tests of stores."""

from __future__ import annotations

from collections.abc import Iterator

from informers.api import ObjectKey
from informers.cache.changes import Change, Synced
from informers.cache.pending_list import PendingList
from informers.cache.store import Store
from tests.informers.scripted_api import Thing, describe


def key(name: str) -> ObjectKey:
    return ObjectKey("space", name)


def describe_change(change: Change[Thing]) -> str:
    """Write a change as `describe` does, and the end of the first list as `synced`."""
    return "synced" if isinstance(change, Synced) else describe(change.old, change.new)


def keys(store: Store[Thing]) -> tuple[ObjectKey, ...]:
    """Return all keys, sorted."""
    return tuple(sorted(map(ObjectKey.of, store)))


def index_values(store: Store[Thing], index: str) -> tuple[str, ...]:
    """Return the values that have objects, sorted."""
    return tuple(sorted(store._contents._buckets[index]))


def replace(store: Store[Thing], pending: PendingList[Thing], resource_version: str) -> None:
    """Apply and report a list without pausing between slices."""
    for _ in store.replace_in_slices(pending, resource_version):
        pass


class StoreRecorder:
    """A store indexed by colour, and the changes that it reported, as `describe` writes them."""

    def __init__(self, slice_objects: int = 250) -> None:
        self.store: Store[Thing] = Store({"colour": lambda found: found.colours}, slice_objects=slice_objects)
        self.changes: list[str] = []
        self.store.subscribe(self.record)

    def record(self, change: Change[Thing]) -> None:
        self.changes.append(describe_change(change))

    def take(self) -> list[str]:
        """Return and clear the recorded changes."""
        changes, self.changes = self.changes, []
        return changes

    def list(self, version: int, *things: Thing, restored: bool = False) -> None:
        for _ in self.list_in_slices(version, *things, restored=restored):
            pass

    def list_in_slices(self, version: int, *things: Thing, restored: bool = False) -> Iterator[None]:
        pending = self.store.begin_list()
        for found in things:
            pending.add(found)
        yield from self.store.replace_in_slices(pending, str(version), restored=restored)
