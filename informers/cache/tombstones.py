"""Deletions that are known before the watch has confirmed them.

Between the response to a delete and the watch event, outdated events may still arrive, about the object or
about earlier objects with its name. A tombstone identifies them as outdated. Once list and watch have passed
its version, the store itself shows what is deleted, and the tombstone is dropped. So there are no more
tombstones than deletes in flight. One per key is enough: that of the newest object with the key.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Final

from informers.api import Key, Object, ObjectKey, version_of

TOMBSTONES_MAX: Final = 8192
"""Limit for deletions that are never confirmed, far above the number in flight; the oldest are dropped."""

ALL_VERSIONS: Final = 1 << 64
"""Newer than every version (they have 64 bits): the UID is deleted for good."""


@dataclass(frozen=True, slots=True)
class _Tombstone:
    uid: str
    seen: int
    """The object existed at this version, so every earlier object with its name is deleted too."""
    until: int
    """Events of the object itself are outdated up to this version."""


class Tombstones:
    """By key, the version up to which events are outdated."""

    def __init__(self) -> None:
        self._by_key: dict[ObjectKey, _Tombstone] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def add(self, deleted: Object, until: int) -> None:
        """Record a deletion: events of `deleted` up to version `until` are outdated."""
        key, seen = ObjectKey.of(deleted), version_of(deleted)
        known = self._by_key.pop(key, None)
        if known is not None and known.uid == deleted.metadata.uid:
            seen, until = max(seen, known.seen), max(until, known.until)
        newest = known if known is not None and known.seen > seen else None
        self._by_key[key] = newest or _Tombstone(deleted.metadata.uid, seen, until)
        if len(self._by_key) > TOMBSTONES_MAX:
            del self._by_key[next(iter(self._by_key))]

    def cover(self, key: ObjectKey, uid: str, version: int) -> bool:
        """Whether an event of `version` about `uid` at `key` is outdated."""
        tombstone = self._by_key.get(key)
        return tombstone is not None and version <= (
            tombstone.until if uid == tombstone.uid else tombstone.seen
        )

    def confirm(self, key: ObjectKey, uid: str) -> None:
        """Drop the tombstone of a deletion that the watch has reported."""
        tombstone = self._by_key.get(key)
        if tombstone is not None and tombstone.uid == uid:
            del self._by_key[key]

    def drop_until(self, version: int) -> None:
        """Drop tombstones that are no longer needed once the watch has reached `version`."""
        self._drop(lambda _, tombstone: tombstone.until <= version)

    def drop_listed(self, uids_at: Callable[[ObjectKey], Container[str]], version: int) -> None:
        """Drop tombstones made obsolete by a list of `version`; `uids_at` returns its UIDs at a key."""
        self._drop(
            lambda key, tombstone: (
                tombstone.until <= version
                or (tombstone.seen <= version and tombstone.uid not in uids_at(key))
            )
        )

    def clear(self) -> None:
        """Drop all tombstones."""
        self._by_key.clear()

    def _drop(self, is_obsolete: Callable[[ObjectKey, _Tombstone], bool]) -> None:
        for key, tombstone in tuple(self._by_key.items()):
            if is_obsolete(key, tombstone):
                del self._by_key[key]
