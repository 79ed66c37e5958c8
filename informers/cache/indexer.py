"""Objects by key together with indexes over them.

The invariant: an object is in exactly the buckets that the index functions name for it, and no bucket is
empty. `put` and `discard` change objects and buckets in one step without awaiting, so that no reader on
the event loop ever sees one without the other. Index functions must be pure and must not raise: a bucket
is left by asking the function about the old object again. All values are asked for before anything is
changed, so that a function that does raise leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Generic

from informers.api import Key, T

IndexFunction = Callable[[T], Iterable[str]]
"""Maps an object to the values under which it is to be found; none to leave it out."""


class _Bucket(Generic[T]):
    """The objects under one value. The sorted view is made when first read, and again after a change."""

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

    def __repr__(self) -> str:
        sizes = ", ".join(f"{index}={len(buckets)}" for index, buckets in self._buckets.items())
        return f"<IndexedObjects objects={len(self.objects)} buckets: {sizes or 'none'}>"

    def empty_copy(self) -> Indexer[T]:
        """No objects, the same indexes."""
        return Indexer(self._functions)

    def put(self, key: Key, obj: T) -> None:
        """Add `obj`, or put it in the place of the object that has this key."""
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
        """Remove the object that has this key, if there is one."""
        old = self.objects.get(key)
        if old is not None:
            self._leave_buckets(key, old, {})
            del self.objects[key]

    def bucket(self, index: str, value: str) -> tuple[T, ...]:
        """The objects under `value`, in the order of their keys. Raises `KeyError` for an unknown index."""
        bucket = self._buckets[index].get(value)
        return bucket.ordered() if bucket is not None else ()

    def values(self, index: str) -> tuple[str, ...]:
        """The values that have objects, sorted. Raises `KeyError` for an unknown index."""
        return tuple(sorted(self._buckets[index]))

    def bucket_counts(self) -> dict[str, int]:
        """The number of buckets by index."""
        return {index: len(buckets) for index, buckets in self._buckets.items()}

    def _leave_buckets(self, key: Key, old: T, staying: Mapping[str, tuple[str, ...]]) -> None:
        for index, function in self._functions.items():
            buckets = self._buckets[index]
            for value in dict.fromkeys(function(old)):
                if value in staying.get(index, ()):
                    continue
                bucket = buckets[value]
                bucket.discard(key)
                if not bucket:
                    del buckets[value]
