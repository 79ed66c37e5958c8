"""An ordered tree that finds the first claim that fits, using the extremes of every subtree.

A search must find the most preferred claim whose node has enough free resources. Walking a sorted list would
visit the claims of all full nodes. Here every subtree stores the minimum and maximum free resources and the
fewest seats in it, so a search skips subtrees in which nothing fits. If one resource is scarce a search takes
logarithmic time, and if nothing fits it usually ends at the root.

The tree is a treap: a search tree by key, and a heap by a pseudo-random number that only affects its shape.
The numbers form a fixed sequence, so the same events build the same tree. No result depends on them.

Limit: if nodes lack different resources, the extremes exclude little and a search visits many buckets.
"""

# A booking compares extremes many times, and calling min() takes four times as long.
# ruff: noqa: FURB136

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Final

from placement.claim_rank import ClaimRank
from placement.host_resources import NO_LOWER_BOUND, NO_UPPER_BOUND, HostResources

Key = tuple[int, int, int, str]
"""Rank and first name. The order is total because names are unique."""

_MULTIPLIER: Final = 6364136223846793005
_INCREMENT: Final = 1442695040888963407
_MASK: Final = (1 << 64) - 1


class ClaimBucket:
    """The claims of one node with one rank. Every query matches all of them or none.

    A bucket in a tree is never empty, and only the tree changes its `names[0]` and `free`.
    """

    __slots__ = ("free", "names", "rank")

    def __init__(self, rank: ClaimRank, free: HostResources, name: str) -> None:
        self.rank = rank
        self.free = free
        self.names = [name]

    @property
    def key(self) -> Key:
        """Position in the tree: the rank and the first name."""
        return (*self.rank, self.names[0])


@dataclass(frozen=True, slots=True)
class Query:
    """The conditions on a bucket. Its free resources are at least `least`, and each is less than `below`."""

    size_bytes: int
    seats_below: int
    least: HostResources = NO_LOWER_BOUND
    below: HostResources = NO_UPPER_BOUND


class _Item:
    """A bucket in the tree, with the extremes over its subtree."""

    __slots__ = ("bucket", "free_max", "free_min", "key", "left", "priority", "right", "seats_min")

    def __init__(self, bucket: ClaimBucket, priority: int) -> None:
        self.bucket = bucket
        self.key = bucket.key
        self.priority = priority
        self.left: _Item | None = None
        self.right: _Item | None = None
        self.free_min = self.free_max = bucket.free
        self.seats_min = bucket.rank.seats

    def update(self) -> bool:
        """Recompute the extremes from the bucket and the children. Return whether they changed."""
        free_min = free_max = self.bucket.free
        seats_min = self.bucket.rank.seats
        for child in (self.left, self.right):
            if child is not None:
                free_min = _minimum(free_min, child.free_min)
                free_max = _maximum(free_max, child.free_max)
                seats_min = min(seats_min, child.seats_min)
        changed = seats_min != self.seats_min or free_min != self.free_min or free_max != self.free_max
        self.free_min, self.free_max, self.seats_min = free_min, free_max, seats_min
        return changed

    def may_match(self, query: Query) -> bool:
        """Return whether the extremes allow a match in this subtree."""
        return self.seats_min < query.seats_below and _within(self.free_max, self.free_min, query)

    def matches(self, query: Query) -> bool:
        """Return whether this item's bucket matches the query."""
        bucket = self.bucket
        return bucket.rank.seats < query.seats_below and _within(bucket.free, bucket.free, query)


class RankedTree:
    """Buckets in the order of their keys, searchable by free resources and seats."""

    def __init__(self) -> None:
        self._root: _Item | None = None
        self._priority = 0

    def insert(self, bucket: ClaimBucket) -> None:
        """Insert a bucket that is not in the tree."""
        self._priority = (self._priority * _MULTIPLIER + _INCREMENT) & _MASK
        # The low bits of this sequence have short periods.
        new = _Item(bucket, self._priority >> 16)
        path: list[_Item] = []
        item = self._root
        while item is not None and item.priority >= new.priority:
            path.append(item)
            item = item.left if new.key < item.key else item.right
        new.left, new.right = _split(item, new.key)
        new.update()
        self._attach(path, new.key, new)

    def remove(self, bucket: ClaimBucket) -> None:
        """Remove a bucket that is in the tree."""
        *path, item = self._path(bucket.key)
        self._attach(path, item.key, _join(item.left, item.right))

    def add_name(self, bucket: ClaimBucket, name: str) -> None:
        """Add a claim to a bucket of the tree."""
        if name < bucket.names[0]:
            self.remove(bucket)
            bucket.names.insert(0, name)
            self.insert(bucket)
        else:
            insort(bucket.names, name)

    def discard_name(self, bucket: ClaimBucket, name: str) -> None:
        """Remove a claim from a bucket of the tree, and the bucket if it is then empty."""
        position = bisect_left(bucket.names, name)
        if position > 0:
            del bucket.names[position]
            return
        self.remove(bucket)
        del bucket.names[0]
        if bucket.names:
            self.insert(bucket)

    def set_free(self, bucket: ClaimBucket, free: HostResources) -> None:
        """Set the free resources of a bucket of the tree."""
        bucket.free = free
        _update_path(self._path(bucket.key))

    def first(self, query: Query, after: Key | None = None) -> ClaimBucket | None:
        """Return the first bucket that matches the query, or the first with a key greater than `after`."""
        start = (query.size_bytes,) if after is None else (*after, "")
        item = _first(self._root, query, start)
        return None if item is None else item.bucket

    def _path(self, key: Key) -> list[_Item]:
        """Return the items from the root to the item with this key."""
        path: list[_Item] = []
        item = self._root
        while item is not None:
            path.append(item)
            if key == item.key:
                return path
            item = item.left if key < item.key else item.right
        raise KeyError(f"no bucket at {key}")

    def _attach(self, path: list[_Item], key: Key, subtree: _Item | None) -> None:
        """Attach a subtree to the last item of the path, on the side of the key."""
        if not path:
            self._root = subtree
        elif key < path[-1].key:
            path[-1].left = subtree
        else:
            path[-1].right = subtree
        _update_path(path)


def _first(item: _Item | None, query: Query, start: tuple[int | str, ...]) -> _Item | None:
    if item is None or not item.may_match(query):
        return None
    if item.key >= start:
        found = _first(item.left, query, start)
        if found is not None:
            return found
        if item.matches(query):
            return item
    return _first(item.right, query, start)


def _update_path(path: list[_Item]) -> None:
    """Update the extremes from the end of the path up to the first item that does not change."""
    for item in reversed(path):
        if not item.update():
            return


def _split(root: _Item | None, key: Key) -> tuple[_Item | None, _Item | None]:
    """Return the items with lesser keys and those with greater keys."""
    if root is None:
        return None, None
    if root.key < key:
        root.right, greater = _split(root.right, key)
        root.update()
        return root, greater
    lesser, root.left = _split(root.left, key)
    root.update()
    return lesser, root


def _join(lesser: _Item | None, greater: _Item | None) -> _Item | None:
    """Merge two trees. Every key of the first is less than every key of the second."""
    if lesser is None or greater is None:
        return lesser or greater
    if lesser.priority > greater.priority:
        lesser.right = _join(lesser.right, greater)
        lesser.update()
        return lesser
    greater.left = _join(lesser, greater.left)
    greater.update()
    return greater


def _within(free_max: HostResources, free_min: HostResources, query: Query) -> bool:
    least, below = query.least, query.below
    return (
        free_max[0] >= least[0]
        and free_max[1] >= least[1]
        and free_max[2] >= least[2]
        and free_min[0] < below[0]
        and free_min[1] < below[1]
        and free_min[2] < below[2]
    )


def _minimum(one: HostResources, other: HostResources) -> HostResources:
    memory_bytes, cpu_millis, pods = one
    return HostResources(
        memory_bytes if memory_bytes < other[0] else other[0],
        cpu_millis if cpu_millis < other[1] else other[1],
        pods if pods < other[2] else other[2],
    )


def _maximum(one: HostResources, other: HostResources) -> HostResources:
    memory_bytes, cpu_millis, pods = one
    return HostResources(
        memory_bytes if memory_bytes > other[0] else other[0],
        cpu_millis if cpu_millis > other[1] else other[1],
        pods if pods > other[2] else other[2],
    )
