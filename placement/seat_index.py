"""The index of claims on nodes that count: by node class, then in order of preference.

A group holds the claims on nodes of one class. Its tree holds the claims that can be joined. Its counts cover
all claims by the check that they fail, so that explaining a wait needs no walk over claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placement.claim_rank import ClaimRank
from placement.claim_state import ClaimState, DerivedState
from placement.host_resources import ZERO, HostResources, allocatable
from placement.node_class import NodeClass, matches
from placement.ranked_tree import ClaimBucket, RankedTree
from placement.types import JoinCheck, Node, NodeTerm


@dataclass(slots=True, eq=False)
class NodeInfo:
    """All facts about one node. `node` is None until the node is seen; its Pods and claims may come first.

    `node_class` is None exactly while the node does not count (contract §2.4: enabled, with a complete pool).
    """

    name: str
    node: Node | None = None
    node_class: NodeClass | None = None
    pod_count: int = 0
    """Unfinished Pods that are bound here."""
    pod_requests: HostResources = ZERO
    """Sum of their requests."""
    unbound_requests: HostResources = ZERO
    """Sum of `DerivedState.unbound_requests` of the claims allocated here."""
    claims: dict[str, ClaimState] = field(default_factory=dict, repr=False)
    buckets: dict[ClaimRank, ClaimBucket] = field(default_factory=dict, repr=False)

    @property
    def free(self) -> HostResources:
        """Free host resources (contract §2.4)."""
        capacity = ZERO if self.node is None else allocatable(self.node.allocatable)
        return capacity.minus(self.pod_requests).minus(self.unbound_requests)

    def matches(self, terms: Sequence[NodeTerm]) -> bool:
        """Return whether the node is known and matches one of the terms."""
        return self.node is not None and matches(terms, self.node)

    @property
    def is_empty(self) -> bool:
        """Whether no fact is left, so that the entry can be dropped."""
        return self.node is None and self.pod_count == 0 and not self.claims


class CountKey(NamedTuple):
    """The properties by which a group counts its claims."""

    check: JoinCheck | None
    size_bytes: int
    seats: int


@dataclass(slots=True, eq=False)
class ClaimGroup:
    """The claims on nodes of one class."""

    node_class: NodeClass
    tree: RankedTree = field(default_factory=RankedTree)
    counts: Counter[CountKey] = field(default_factory=Counter, repr=False)


class SeatIndex:
    """All claims on nodes that count, by node class. Groups are never empty."""

    def __init__(self) -> None:
        self._groups: dict[NodeClass, ClaimGroup] = {}

    def groups(self) -> Iterator[ClaimGroup]:
        """Return every group, in no particular order: no decision depends on it."""
        return iter(self._groups.values())

    def add(self, info: NodeInfo, name: str, derived: DerivedState) -> None:
        """Add a claim on a node. Does nothing if the node does not count."""
        if info.node_class is None:
            return
        key = info.node_class
        group = self._groups.get(key) or self._groups.setdefault(key, ClaimGroup(key))
        group.counts[_count_key(derived)] += 1
        if derived.check is not None:
            return
        bucket = info.buckets.get(derived.rank)
        if bucket is not None:
            group.tree.add_name(bucket, name)
        else:
            bucket = info.buckets[derived.rank] = ClaimBucket(derived.rank, info.free, name)
            group.tree.insert(bucket)

    def remove(self, info: NodeInfo, name: str, derived: DerivedState) -> None:
        """Remove a claim. `derived` and the node's class must be those of the matching `add`."""
        if info.node_class is None:
            return
        group = self._groups[info.node_class]
        if derived.check is None:
            bucket = info.buckets[derived.rank]
            group.tree.discard_name(bucket, name)
            if not bucket.names:
                del info.buckets[derived.rank]
        key = _count_key(derived)
        group.counts[key] -= 1
        if not group.counts[key]:
            del group.counts[key]
        if not group.counts:
            del self._groups[info.node_class]

    def update_free(self, info: NodeInfo) -> None:
        """Copy the node's free resources to its buckets."""
        if info.node_class is None:
            return
        free = info.free
        for bucket in info.buckets.values():
            if bucket.free != free:
                self._groups[info.node_class].tree.set_free(bucket, free)


def _count_key(derived: DerivedState) -> CountKey:
    return CountKey(derived.check, derived.rank.size_bytes, derived.rank.seats)
