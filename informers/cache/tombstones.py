"""Deletions that we know of before the watch has shown them.

Between the answer to a delete and the watch's own word, news of the object as it was may still arrive, and
even of objects that had its name before; a tombstone tells it for what it is. Up to the version that list
and watch have reached the store itself shows what is gone, so a tombstone is dropped once they have passed
it: there are as many as deletes on their way. One for each key is enough, that of the newest object there.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Final

from informers.api import Key, Object, ObjectKey, version_of

TOMBSTONES_MAX: Final = 8192
"""A bound against deletions that are never shown, far above what can be on its way; the oldest go first."""

FOR_EVER: Final = 1 << 64
"""Newer than every version (they are 64 bit): the UID is gone for good."""


@dataclass(frozen=True, slots=True)
class _Tombstone:
    uid: str
    seen: int
    """The object had been there at this version: whatever else had its name before is gone as well."""
    until: int
    """News of the object itself is out of date up to this version."""


class Tombstones:
    """By key, up to which version news is out of date."""

    def __init__(self) -> None:
        self._by_key: dict[ObjectKey, _Tombstone] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def __repr__(self) -> str:
        return f"<Tombstones {len(self)} of at most {TOMBSTONES_MAX}>"

    def bury(self, gone: Object, until: int) -> None:
        """Remember that `gone` is gone: news of it up to version `until` is out of date."""
        key, seen = ObjectKey.of(gone), version_of(gone)
        known = self._by_key.pop(key, None)
        if known is not None and known.uid == gone.metadata.uid:
            seen, until = max(seen, known.seen), max(until, known.until)
        newest = known if known is not None and known.seen > seen else None
        self._by_key[key] = newest or _Tombstone(gone.metadata.uid, seen, until)
        if len(self._by_key) > TOMBSTONES_MAX:
            del self._by_key[next(iter(self._by_key))]

    def cover(self, key: ObjectKey, uid: str, version: int) -> bool:
        """Whether news of `version` about `uid` at `key` is out of date."""
        tombstone = self._by_key.get(key)
        return tombstone is not None and version <= (
            tombstone.until if uid == tombstone.uid else tombstone.seen
        )

    def confirm(self, key: ObjectKey, uid: str) -> None:
        """The watch has shown the deletion."""
        tombstone = self._by_key.get(key)
        if tombstone is not None and tombstone.uid == uid:
            del self._by_key[key]

    def pass_version(self, version: int) -> None:
        """The watch has shown everything up to `version`."""
        self._drop(lambda _, tombstone: tombstone.until <= version)

    def pass_list(self, uids_at: Callable[[ObjectKey], Container[str]], version: int) -> None:
        """A list of `version` has shown what exists; `uids_at` tells the UIDs that it has at a key."""
        self._drop(
            lambda key, tombstone: (
                tombstone.until <= version
                or (tombstone.seen <= version and tombstone.uid not in uids_at(key))
            )
        )

    def clear(self) -> None:
        """Forget all of them."""
        self._by_key.clear()

    def _drop(self, is_needless: Callable[[ObjectKey, _Tombstone], bool]) -> None:
        for key, tombstone in tuple(self._by_key.items()):
            if is_needless(key, tombstone):
                del self._by_key[key]
