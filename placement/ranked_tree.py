"""The first of many that fits: an ordered tree that knows the extremes of every subtree.

Seats are wanted in order of preference, under bounds on what the node has left. A plain ordered list would be
walked through all the claims of full nodes. Here every subtree carries the least and greatest room and the
fewest seats in it, so that a search leaves out whole subtrees in which nothing can fit; with one resource
scarce it takes logarithmic time, and where nothing fits it usually ends at the root.

The tree is a treap: a search tree by key, a heap by a pseudo-random number that only shapes it. The numbers
come from a fixed sequence, so the same events give the same tree; no answer depends on them.

What it does badly: where every node lacks one resource, but not all the same, extremes say little and a
search looks at many cells.
"""

# Extremes are compared some hundred times per booking, and a call of min() costs four times as much.
# ruff: noqa: FURB136

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Final

from placement.claim_state import ClaimRank
from placement.host_resources import ANY_ROOM, ENDLESS_ROOM, HostResources

Key = tuple[int, int, int, str]
"""Rank, then the first name: a total order, since names are unique."""

_MULTIPLIER: Final = 6364136223846793005
_INCREMENT: Final = 1442695040888963407
_MASK: Final = (1 << 64) - 1


class ClaimBucket:
    """The claims of one node that share a rank: they stand or fall together for every request.

    Never empty while it is in a tree; there, `names[0]` and `room` change only through `RankedTree`.
    """

    __slots__ = ("names", "rank", "room")

    def __init__(self, rank: ClaimRank, room: HostResources, name: str) -> None:
        self.rank = rank
        self.room = room
        self.names = [name]

    @property
    def key(self) -> Key:
        """Where the cell stands: by its rank and the best name in it."""
        return (*self.rank, self.names[0])

    def __repr__(self) -> str:
        return f"<Cell {self.key}: {len(self.names)} claims, {self.room}>"


@dataclass(frozen=True, slots=True)
class Query:
    """The cells that are looked for. `least` is inclusive, `below` excludes."""

    size_bytes: int
    seats_below: int
    least: HostResources = ANY_ROOM
    below: HostResources = ENDLESS_ROOM


class _Item:
    """A cell in the tree, with the extremes over its subtree."""

    __slots__ = ("cell", "highest", "key", "left", "lowest", "priority", "right", "seats_min")

    def __init__(self, cell: ClaimBucket, priority: int) -> None:
        self.cell = cell
        self.key = cell.key
        self.priority = priority
        self.left: _Item | None = None
        self.right: _Item | None = None
        self.lowest = self.highest = cell.room
        self.seats_min = cell.rank.seats

    def pull(self) -> bool:
        """Take the extremes from the cell and the children again; whether they changed by it."""
        lowest = highest = self.cell.room
        seats_min = self.cell.rank.seats
        for child in (self.left, self.right):
            if child is not None:
                lowest = _least(lowest, child.lowest)
                highest = _greatest(highest, child.highest)
                seats_min = min(seats_min, child.seats_min)
        changed = seats_min != self.seats_min or lowest != self.lowest or highest != self.highest
        self.lowest, self.highest, self.seats_min = lowest, highest, seats_min
        return changed

    def may_hold(self, query: Query) -> bool:
        """Whether the extremes leave it possible that a cell of the subtree answers the query."""
        return self.seats_min < query.seats_below and _within(self.highest, self.lowest, query)

    def answers(self, query: Query) -> bool:
        """Whether this item's cell answers the query."""
        cell = self.cell
        return cell.rank.seats < query.seats_below and _within(cell.room, cell.room, query)


class RankedTree:
    """Cells in the order of their keys, searchable by room and seats."""

    def __init__(self) -> None:
        self._root: _Item | None = None
        self._size = 0
        self._priority = 0

    def insert(self, cell: ClaimBucket) -> None:
        """Put a cell in that is not in the tree."""
        self._priority = (self._priority * _MULTIPLIER + _INCREMENT) & _MASK
        # The low bits of such a sequence have short periods.
        new = _Item(cell, self._priority >> 16)
        path: list[_Item] = []
        item = self._root
        while item is not None and item.priority >= new.priority:
            path.append(item)
            item = item.left if new.key < item.key else item.right
        new.left, new.right = _split(item, new.key)
        new.pull()
        self._hang(path, new.key, new)
        self._size += 1

    def remove(self, cell: ClaimBucket) -> None:
        """Take a cell out that is in the tree."""
        *path, item = self._path(cell.key)
        self._hang(path, item.key, _join(item.left, item.right))
        self._size -= 1

    def add_name(self, cell: ClaimBucket, name: str) -> None:
        """Put another claim into a cell of the tree."""
        if name < cell.names[0]:
            self.remove(cell)
            cell.names.insert(0, name)
            self.insert(cell)
        else:
            insort(cell.names, name)

    def discard_name(self, cell: ClaimBucket, name: str) -> None:
        """Take a claim out of a cell of the tree, and with its last one the cell."""
        position = bisect_left(cell.names, name)
        if position > 0:
            del cell.names[position]
            return
        self.remove(cell)
        del cell.names[0]
        if cell.names:
            self.insert(cell)

    def set_room(self, cell: ClaimBucket, room: HostResources) -> None:
        """Note what the node of a cell of the tree has left now."""
        cell.room = room
        _pull_up(self._path(cell.key))

    def first(self, query: Query, after: Key | None = None) -> ClaimBucket | None:
        """The first cell that answers the query, of those behind the key if one is given."""
        start = (query.size_bytes,) if after is None else (*after, "")
        item = _first(self._root, query, start)
        return None if item is None else item.cell

    def _path(self, key: Key) -> list[_Item]:
        """The items from the root to that of the key."""
        path: list[_Item] = []
        item = self._root
        while item is not None:
            path.append(item)
            if key == item.key:
                return path
            item = item.left if key < item.key else item.right
        raise KeyError(f"no cell at {key}")

    def _hang(self, path: list[_Item], key: Key, subtree: _Item | None) -> None:
        """Put a subtree below the end of the path, on the side of the key."""
        if not path:
            self._root = subtree
        elif key < path[-1].key:
            path[-1].left = subtree
        else:
            path[-1].right = subtree
        _pull_up(path)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<FirstFit: {self._size} cells>"


def _first(item: _Item | None, query: Query, start: tuple[int | str, ...]) -> _Item | None:
    if item is None or not item.may_hold(query):
        return None
    if item.key >= start:
        found = _first(item.left, query, start)
        if found is not None:
            return found
        if item.answers(query):
            return item
    return _first(item.right, query, start)


def _pull_up(path: list[_Item]) -> None:
    """Take the extremes anew from the end of the path up to where they do not change."""
    for item in reversed(path):
        if not item.pull():
            return


def _split(root: _Item | None, key: Key) -> tuple[_Item | None, _Item | None]:
    """The items before the key and those behind it."""
    if root is None:
        return None, None
    if root.key < key:
        root.right, behind = _split(root.right, key)
        root.pull()
        return root, behind
    before, root.left = _split(root.left, key)
    root.pull()
    return before, root


def _join(before: _Item | None, behind: _Item | None) -> _Item | None:
    """One tree of two, where every key of the first is less than every key of the second."""
    if before is None or behind is None:
        return before or behind
    if before.priority > behind.priority:
        before.right = _join(before.right, behind)
        before.pull()
        return before
    behind.left = _join(before, behind.left)
    behind.pull()
    return behind


def _within(highest: HostResources, lowest: HostResources, query: Query) -> bool:
    least, below = query.least, query.below
    return (
        highest[0] >= least[0]
        and highest[1] >= least[1]
        and highest[2] >= least[2]
        and lowest[0] < below[0]
        and lowest[1] < below[1]
        and lowest[2] < below[2]
    )


def _least(one: HostResources, other: HostResources) -> HostResources:
    memory_bytes, cpu_millis, pods = one
    return HostResources(
        memory_bytes if memory_bytes < other[0] else other[0],
        cpu_millis if cpu_millis < other[1] else other[1],
        pods if pods < other[2] else other[2],
    )


def _greatest(one: HostResources, other: HostResources) -> HostResources:
    memory_bytes, cpu_millis, pods = one
    return HostResources(
        memory_bytes if memory_bytes > other[0] else other[0],
        cpu_millis if cpu_millis > other[1] else other[1],
        pods if pods > other[2] else other[2],
    )
