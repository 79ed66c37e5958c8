"""Objects by key, with indexes over them.

Invariant: an object is in exactly the buckets that the index functions return for it, and no bucket is empty.
`put` and `discard` change objects and buckets in one step without awaiting, so no reader on the event loop
sees one without the other.

Index functions must be pure and must not raise: to remove an object from its buckets, the functions are
called on it again. All values are computed before anything changes, so a function that does raise has no
effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Generic

from informers.api import Key, T

IndexFunction = Callable[[T], Iterable[str]]
"""Maps an object to its index values; no values leave it out of the index."""


class _Bucket(Generic[T]):
    """The objects under one value. The sorted view is built on the first read after a change."""

    __slots__ = ("_members", "_ordered")

    def __init__(self) -> None:
        self._members: dict[Key, T] = {}
        self._ordered: tuple[T, ...] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def put(self, key: Key, obj: T) -> None:
        self._members[key] = obj
        self._ordered = None

    def discard(self, key: Key) -> None:
        self._members.pop(key, None)
        self._ordered = None

    def ordered(self) -> tuple[T, ...]:
        if self._ordered is None:
            self._ordered = tuple(obj for _, obj in sorted(self._members.items(), key=itemgetter(0)))
        return self._ordered


class Indexer(Generic[T]):
    """The objects and the buckets of every index."""

    def __init__(self, functions: Mapping[str, IndexFunction[T]]) -> None:
        self.objects: dict[Key, T] = {}
        self._functions = dict(functions)
        self._buckets: dict[str, dict[str, _Bucket[T]]] = {index: {} for index in functions}

    def empty_copy(self) -> Indexer[T]:
        """Return an empty indexer with the same indexes."""
        return Indexer(self._functions)

    def put(self, key: Key, obj: T) -> None:
        """Add `obj`, or replace the object with this key."""
        old = self.objects.get(key)
        if old is obj:
            return
        values = {index: tuple(function(obj)) for index, function in self._functions.items()}
        if old is not None:
            self._leave_buckets(key, old, values)
        self.objects[key[0], key[1]] = obj
        for index, names in values.items():
            buckets = self._buckets[index]
            for value in names:
                if value not in buckets:
                    buckets[value] = _Bucket()
                buckets[value].put(key, obj)

    def discard(self, key: Key) -> None:
        """Remove the object with this key, if any."""
        old = self.objects.get(key)
        if old is not None:
            self._leave_buckets(key, old, {})
            del self.objects[key]

    def bucket(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects under `value`, sorted by key. Raises `KeyError` for an unknown index."""
        bucket = self._buckets[index].get(value)
        return bucket.ordered() if bucket is not None else ()

    def _leave_buckets(self, key: Key, old: T, kept: Mapping[str, tuple[str, ...]]) -> None:
        for index, function in self._functions.items():
            buckets = self._buckets[index]
            for value in dict.fromkeys(function(old)):
                if value in kept.get(index, ()):
                    continue
                bucket = buckets[value]
                bucket.discard(key)
                if not bucket:
                    del buckets[value]
