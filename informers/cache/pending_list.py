"""The next contents of a store, prepared while the pages of a list arrive.

A list of a hundred thousand objects must take effect in one step without blocking the event loop. So the
contents, their indexes and the changes to report are prepared page by page, invisible to readers. Only
unresolved keys are left for the exchange: keys with a tombstone, an unreadable version or a newer object, and
keys written since the list began.

Invariant: for every resolved key, the store still shows what it showed when the key was resolved. A caller
that is about to change the store at a key must call `mark_unresolved` first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic

from informers.api import Key, ObjectKey, T, UnreadableObject, plain_key, version_of
from informers.cache.changes import Transition
from informers.cache.indexer import Indexer

SLICE: Final = 250
"""Objects processed or reported before other tasks run: a few milliseconds."""


class PendingList(Generic[T]):
    """Filled page by page with `add` and `add_unreadable`; the store takes it over once complete.

    `needs_merge` decides whether the store has more information about a key than the object that it shows.
    """

    def __init__(self, current: Indexer[T], needs_merge: Callable[[Key], bool], slice_objects: int) -> None:
        self._slice_objects = slice_objects
        self._current = current
        self._needs_merge = needs_merge
        self.contents = current.empty_copy()
        """The next contents, as far as resolved."""
        self.unreadable: dict[ObjectKey, UnreadableObject] = {}
        """Listed objects that cannot be decoded."""
        self.unresolved: dict[Key, T | None] = {}
        """The listed object at each unresolved key."""
        self.deleted: dict[Key, Transition[T]] = {}
        self.changed: dict[Key, Transition[T]] = {}
        self.items = 0
        """Objects listed so far, unreadable ones included."""
        self._kept: set[Key] = set()

    def __repr__(self) -> str:
        return (
            f"<PendingList items={self.items} changed={len(self.changed)} deleted={len(self.deleted)} "
            f"unresolved={len(self.unresolved)} unreadable={len(self.unreadable)}>"
        )

    def add(self, obj: T) -> None:
        """Add one object. If the store has the same version, that object is kept and `obj` is freed."""
        self.items += 1
        key = plain_key(obj)
        known = self._current.objects.get(key)
        if key in self.unresolved or self._needs_merge(key):
            listed = known if known is not None and is_same_version(known, obj) else obj
            self.contents.put(key, listed)  # keeps its position, whatever the result
            self.unresolved[key] = listed
        elif known is None:
            self.contents.put(key, obj)
            self.changed[key] = Transition(None, obj)
        elif is_same_version(known, obj):
            self.contents.put(key, known)
            self.changed.pop(key, None)
        elif version_of(obj) > version_of(known):
            self.contents.put(key, obj)
            self.changed[key] = Transition(known, obj)
        else:
            self.contents.put(key, obj)
            self.unresolved[key] = obj

    def add_unreadable(self, unreadable: UnreadableObject) -> None:
        """Add an object that exists but cannot be decoded."""
        self.items += 1
        key = ObjectKey.of(unreadable)
        self.unreadable[key] = unreadable
        self.unresolved.setdefault(key, None)

    def find_deleted(self, version: int, *, restored: bool) -> Iterator[None]:
        """Resolve, in slices, the keys that the list lacks: a key is deleted unless written after the list.

        `version` is that of the list. If the server was `restored`, no object counts as newer than the list.
        """
        for number, key in enumerate(tuple(self._current.objects), 1):
            if key not in self.contents.objects and key not in self.unresolved:
                obj = self._current.objects[key]
                if not restored and version_of(obj) > version:
                    self.contents.put(key, obj)
                    self._kept.add(key)
                else:
                    self.deleted[key] = Transition(obj, None)
            if number % self._slice_objects == 0:
                yield

    def mark_unresolved(self, key: Key) -> None:
        """Resolve `key` again at the exchange, because the store is about to change there."""
        if key not in self.unresolved:
            self.unresolved[key] = None if key in self._kept else self.contents.objects.get(key)
            self.changed.pop(key, None)
            self.deleted.pop(key, None)

    def uids_at(self, key: ObjectKey) -> tuple[str, ...]:
        """Return the UIDs that the list has at `key`."""
        listed = self.unresolved[key] if key in self.unresolved else self.contents.objects.get(key)
        unreadable = self.unreadable.get(key)
        return (
            *((listed.metadata.uid,) if listed is not None and key not in self._kept else ()),
            *((unreadable.uid,) if unreadable is not None else ()),
        )

    def resolve(self, key: Key, new: T | None) -> None:
        """Set the object that the store will hold at an unresolved key."""
        old = self._current.objects.get(key)
        if new is None:
            self.contents.discard(key)
        else:
            self.contents.put(key, new)
        if new is not old:
            (self.deleted if new is None else self.changed)[key] = Transition(old, new)


def is_same_version(known: T, obj: T) -> bool:
    """Whether both are the same version of the same object."""
    one, other = known.metadata, obj.metadata
    return one.resource_version == other.resource_version and one.uid == other.uid
