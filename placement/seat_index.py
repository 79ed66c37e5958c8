"""Where joinable claims are looked up: by node class, then in order of preference.

A group holds the claims on nodes of one class. Its tree has those that can be joined (the rest never stand in
it); its counts have all of them, by what rules them out, so that a waiting worker's reason is found without
a walk over claims. Sites are told apart by identity; the index keeps each site's cells on the site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from placement.claim_state import ClaimRank, ClaimState, DerivedState
from placement.host_resources import NO_ROOM, HostResources, allocatable
from placement.node_class import NodeClass
from placement.ranked_tree import ClaimBucket, RankedTree
from placement.types import JoinCheck, Node


class NodeInfo:
    """A node as events have left it. `node` is None until it is seen; its Pods and claims may come first.

    `node_class` is None exactly while the node does not count (contract §2.4: enabled, with a complete pool).
    """

    __slots__ = ("cells", "charged", "claims", "name", "node", "node_class", "pods", "pods_taken")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.node_class: NodeClass | None = None
        self.pods = 0
        """Number of unfinished Pods bound here."""
        self.pods_taken = NO_ROOM
        """Sum of their requests."""
        self.charged = NO_ROOM
        """Sum of the charges of the claims allocated here."""
        self.claims: dict[str, ClaimState] = {}
        self.cells: dict[ClaimRank, ClaimBucket] = {}

    @property
    def room(self) -> HostResources:
        """What the host has left (contract §2.4)."""
        given = NO_ROOM if self.node is None else allocatable(self.node.allocatable)
        return given.minus(self.pods_taken).minus(self.charged)

    @property
    def vacant(self) -> bool:
        """Whether nothing is known any more, so that the site can be dropped."""
        return self.node is None and self.pods == 0 and not self.claims

    def __repr__(self) -> str:
        counted = "counts" if self.node_class is not None else "does not count"
        return f"<Site {self.name} {counted}: {self.pods} Pods, {len(self.claims)} claims, {self.room} left>"


class CountKey(NamedTuple):
    """What a group counts claims by: all that decides, but for the names and the node's room."""

    check: JoinCheck | None
    size_bytes: int
    seats: int


class ClaimGroup:
    """The claims on nodes of one class."""

    __slots__ = ("kinds", "node_class", "tree")

    def __init__(self, node_class: NodeClass) -> None:
        self.node_class = node_class
        self.tree = RankedTree()
        self.kinds: Counter[CountKey] = Counter()

    def __repr__(self) -> str:
        return f"<Group: {self.kinds.total()} claims of {len(self.kinds)} kinds, {len(self.tree)} cells>"


class SeatIndexStatistics(NamedTuple):
    """Sizes of a `SeatIndex`, in objects."""

    groups: int
    claims: int
    cells: int


class SeatIndex:
    """All claims on nodes that count, by node class. Groups are never empty."""

    def __init__(self) -> None:
        self._groups: dict[NodeClass, ClaimGroup] = {}

    def groups(self) -> Iterator[ClaimGroup]:
        """Every group, in no meaningful order: decisions compare what they find in all of them."""
        return iter(self._groups.values())

    def enter(self, site: NodeInfo, name: str, standing: DerivedState) -> None:
        """Take in a claim on a site that counts."""
        if site.node_class is None:
            return
        group = self._groups.get(site.node_class)
        if group is None:
            group = self._groups[site.node_class] = ClaimGroup(site.node_class)
        group.kinds[_kind(standing)] += 1
        if standing.check is not None:
            return
        cell = site.cells.get(standing.rank)
        if cell is not None:
            group.tree.add_name(cell, name)
        else:
            cell = site.cells[standing.rank] = ClaimBucket(standing.rank, site.room, name)
            group.tree.insert(cell)

    def leave(self, site: NodeInfo, name: str, standing: DerivedState) -> None:
        """Take out a claim as it was taken in."""
        if site.node_class is None:
            return
        group = self._groups[site.node_class]
        if standing.check is None:
            cell = site.cells[standing.rank]
            group.tree.discard_name(cell, name)
            if not cell.names:
                del site.cells[standing.rank]
        kind = _kind(standing)
        group.kinds[kind] -= 1
        if not group.kinds[kind]:
            del group.kinds[kind]
        if not group.kinds:
            del self._groups[site.node_class]

    def follow_room(self, site: NodeInfo) -> None:
        """Note what the site has left now."""
        if site.node_class is None:
            return
        room = site.room
        for cell in site.cells.values():
            if cell.room != room:
                self._groups[site.node_class].tree.set_room(cell, room)

    def statistics(self) -> SeatIndexStatistics:
        """Sizes, for metrics and `repr`."""
        return SeatIndexStatistics(
            groups=len(self._groups),
            claims=sum(group.kinds.total() for group in self.groups()),
            cells=sum(len(group.tree) for group in self.groups()),
        )

    def __repr__(self) -> str:
        groups, claims, cells = self.statistics()
        return f"<SeatIndex: {claims} claims, {cells} cells in {groups} node classes>"


def _kind(standing: DerivedState) -> CountKey:
    return CountKey(standing.check, standing.rank.size_bytes, standing.rank.seats)
