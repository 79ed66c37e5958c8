"""A list on its way into a store: the store's next contents, made ready while the pages arrive.

Taking a list in must touch a hundred thousand objects and hold up nobody, and still count as one step. So all
that can be known beforehand is worked out beforehand, page by page and unseen: the next contents with their
indexes, and what there will be to tell. What is left for the moment of the exchange are the keys in doubt:
those that something else is known of (a tombstone, an unreadable version, a newer object), and those that
were written to since the list was begun.

The invariant: for every key that is settled, the store still shows what it showed when the key was settled.
Whoever changes the store at a key has to say so first (`doubt`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic

from informers.api import Key, ObjectKey, T, UnreadableObject, plain_key, version_of
from informers.cache.changes import Transition
from informers.cache.indexer import Indexer

SLICE: Final = 250
"""Objects that are looked at, or told of, before other tasks get their turn: a few milliseconds."""


class PendingList(Generic[T]):
    """Filled page by page with `add` and `add_unreadable`; the store takes it over when it is complete."""

    def __init__(self, current: Indexer[T], is_suspect: Callable[[Key], bool], slice_objects: int) -> None:
        self._slice_objects = slice_objects
        self._current = current
        self._is_suspect = is_suspect
        self.contents = current.empty_copy()
        """What the store will hold, as far as it is settled."""
        self.unreadable: dict[ObjectKey, UnreadableObject] = {}
        """What the list holds and cannot be decoded."""
        self.doubtful: dict[Key, T | None] = {}
        """What the list has at the keys that are not settled yet."""
        self.gone: dict[Key, Transition[T]] = {}
        self.changed: dict[Key, Transition[T]] = {}
        self.items = 0
        """Objects listed so far, unreadable ones included."""
        self._kept: set[Key] = set()

    def __repr__(self) -> str:
        return (
            f"<Replacement items={self.items} changed={len(self.changed)} gone={len(self.gone)} "
            f"doubtful={len(self.doubtful)} unreadable={len(self.unreadable)}>"
        )

    def add(self, obj: T) -> None:
        """Take in one object; where the store holds the same version, that one is kept and `obj` is freed."""
        self.items += 1
        key = plain_key(obj)
        known = self._current.objects.get(key)
        if key in self.doubtful or self._is_suspect(key):
            listed = known if known is not None and same(known, obj) else obj
            self.contents.put(key, listed)  # for its place in the order, whatever comes of it
            self.doubtful[key] = listed
        elif known is None:
            self.contents.put(key, obj)
            self.changed[key] = Transition(None, obj)
        elif same(known, obj):
            self.contents.put(key, known)
            self.changed.pop(key, None)
        elif version_of(obj) > version_of(known):
            self.contents.put(key, obj)
            self.changed[key] = Transition(known, obj)
        else:
            self.contents.put(key, obj)
            self.doubtful[key] = obj

    def add_unreadable(self, unreadable: UnreadableObject) -> None:
        """Take in the fact that an object exists whose content could not be decoded."""
        self.items += 1
        key = ObjectKey.of(unreadable)
        self.unreadable[key] = unreadable
        self.doubtful.setdefault(key, None)

    def find_gone(self, version: int, *, restored: bool) -> Iterator[None]:
        """Settle what the store has and the list lacks, in slices: gone, unless written after the list.

        `version` is that of the list; in a `restored` server's list nothing is newer than it.
        """
        for number, key in enumerate(tuple(self._current.objects), 1):
            if key not in self.contents.objects and key not in self.doubtful:
                obj = self._current.objects[key]
                if not restored and version_of(obj) > version:
                    self.contents.put(key, obj)
                    self._kept.add(key)
                else:
                    self.gone[key] = Transition(obj, None)
            if number % self._slice_objects == 0:
                yield

    def doubt(self, key: Key) -> None:
        """The store is about to learn something else of `key`: it is settled anew at the exchange."""
        if key not in self.doubtful:
            self.doubtful[key] = None if key in self._kept else self.contents.objects.get(key)
            self.changed.pop(key, None)
            self.gone.pop(key, None)

    def uids_at(self, key: ObjectKey) -> tuple[str, ...]:
        """The UIDs that the list has at `key`: none or one."""
        listed = self.doubtful[key] if key in self.doubtful else self.contents.objects.get(key)
        unreadable = self.unreadable.get(key)
        return (
            *((listed.metadata.uid,) if listed is not None and key not in self._kept else ()),
            *((unreadable.uid,) if unreadable is not None else ()),
        )

    def settle(self, key: Key, new: T | None) -> None:
        """Decide what the store will hold at a key that is in doubt. The doubt stays until the exchange."""
        old = self._current.objects.get(key)
        if new is None:
            self.contents.discard(key)
        else:
            self.contents.put(key, new)
        if new is not old:
            (self.gone if new is None else self.changed)[key] = Transition(old, new)


def same(known: T, obj: T) -> bool:
    """Whether these are the same version of the same object."""
    one, other = known.metadata, obj.metadata
    return one.resource_version == other.resource_version and one.uid == other.uid
