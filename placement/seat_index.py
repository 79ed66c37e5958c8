"""The index of claims on the nodes in use: by node class and attributes, then in order of preference.

A group holds the claims on nodes of one class whose devices meet the same demands. Its tree holds the claims
that can be joined. Its counts cover all claims by the check that they fail, so that explaining a wait needs
no walk over claims.
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
from placement.types import AttributeDemand, JoinCheck, Node, NodeTerm, PlacementRequest


class BucketKey(NamedTuple):
    """The properties that the claims of one bucket of a node share."""

    rank: ClaimRank
    accepted_by: frozenset[AttributeDemand]


@dataclass(slots=True, eq=False)
class NodeInfo:
    """All facts about one node. `node` is None until the node is seen; its Pods and claims may come first.

    `node_class` is None exactly while the node is not in use (contract §2.4: enabled, with a complete pool).
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
    buckets: dict[BucketKey, ClaimBucket] = field(default_factory=dict, repr=False)

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


class GroupKey(NamedTuple):
    """The properties that the claims of one group share."""

    node_class: NodeClass
    accepted_by: frozenset[AttributeDemand]


@dataclass(slots=True, eq=False)
class ClaimGroup:
    """The claims on nodes of one class whose devices meet the same demands for attributes."""

    node_class: NodeClass
    accepted_by: frozenset[AttributeDemand]
    tree: RankedTree = field(default_factory=RankedTree)
    counts: Counter[CountKey] = field(default_factory=Counter, repr=False)

    def check(self, request: PlacementRequest) -> JoinCheck | None:
        """Return the first condition that all claims of the group fail for this worker."""
        return self.node_class.check(request) or check_attributes(self.accepted_by, request)


def check_attributes(accepted_by: frozenset[AttributeDemand], request: PlacementRequest) -> JoinCheck | None:
    """Return whether a device that these demands accept lacks an attribute that the worker requires."""
    differs = bool(request.attributes) and request.attributes not in accepted_by
    return JoinCheck.DEVICE_DIFFERS if differs else None


class SeatIndex:
    """All claims on the nodes in use, by group. Groups are never empty."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, ClaimGroup] = {}

    def groups(self) -> Iterator[ClaimGroup]:
        """Return every group, in no particular order: no decision depends on it."""
        return iter(self._groups.values())

    def add(self, info: NodeInfo, name: str, derived: DerivedState) -> None:
        """Add a claim on a node. Does nothing if the node is not in use."""
        if info.node_class is None:
            return
        key = GroupKey(info.node_class, derived.accepted_by)
        group = self._groups.get(key) or self._groups.setdefault(key, ClaimGroup(*key))
        group.counts[_count_key(derived)] += 1
        if derived.check is not None:
            return
        bucket_key = BucketKey(derived.rank, derived.accepted_by)
        bucket = info.buckets.get(bucket_key)
        if bucket is not None:
            group.tree.add_name(bucket, name)
        else:
            bucket = info.buckets[bucket_key] = ClaimBucket(derived.rank, info.free, name)
            group.tree.insert(bucket)

    def remove(self, info: NodeInfo, name: str, derived: DerivedState) -> None:
        """Remove a claim. `derived` and the node's class must be those of the matching `add`."""
        if info.node_class is None:
            return
        group_key = GroupKey(info.node_class, derived.accepted_by)
        group = self._groups[group_key]
        if derived.check is None:
            bucket_key = BucketKey(derived.rank, derived.accepted_by)
            bucket = info.buckets[bucket_key]
            group.tree.discard_name(bucket, name)
            if not bucket.names:
                del info.buckets[bucket_key]
        key = _count_key(derived)
        group.counts[key] -= 1
        if not group.counts[key]:
            del group.counts[key]
        if not group.counts:
            del self._groups[group_key]

    def update_free(self, info: NodeInfo) -> None:
        """Copy the node's free resources to its buckets."""
        if info.node_class is None:
            return
        free = info.free
        for key, bucket in info.buckets.items():
            if bucket.free != free:
                self._groups[GroupKey(info.node_class, key.accepted_by)].tree.set_free(bucket, free)


def _count_key(derived: DerivedState) -> CountKey:
    return CountKey(derived.check, derived.rank.size_bytes, derived.rank.seats)
