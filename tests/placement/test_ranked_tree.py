"""The tree finds the same bucket as a walk over the sorted buckets, and visits few of them."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.claim_rank import ClaimRank
from placement.host_resources import HostResources
from placement.ranked_tree import ClaimBucket, Query, RankedTree, _Item

small = st.integers(0, 4)
ranks = st.builds(ClaimRank, small, small, small)
free = st.builds(HostResources, small, small, small)
names = st.integers(0, 30).map("claim-{:02}".format)


class Step(NamedTuple):
    action: str
    name: str
    rank: ClaimRank
    free: HostResources


steps = st.builds(Step, st.sampled_from(("add", "add", "remove", "free")), names, ranks, free)
low, high = st.integers(0, 2), st.integers(2, 5)
queries = st.builds(
    Query, low, high, st.builds(HostResources, low, low, low), st.builds(HostResources, high, high, high)
)


def apply(
    tree: RankedTree, buckets: dict[ClaimRank, ClaimBucket], bucket_of: dict[str, ClaimBucket], step: Step
) -> None:
    if step.action == "add" and step.name not in bucket_of:
        bucket = buckets.get(step.rank)
        if bucket is None:
            bucket = buckets[step.rank] = ClaimBucket(step.rank, step.free, step.name)
            tree.insert(bucket)
        else:
            tree.add_name(bucket, step.name)
        bucket_of[step.name] = bucket
    elif step.action == "remove" and step.name in bucket_of:
        bucket = bucket_of.pop(step.name)
        tree.discard_name(bucket, step.name)
        if not bucket.names:
            del buckets[bucket.rank]
    elif step.action == "free" and step.name in bucket_of:
        tree.set_free(bucket_of[step.name], step.free)


def first_by_walk(buckets: dict[ClaimRank, ClaimBucket], query: Query) -> ClaimBucket | None:
    for bucket in sorted(buckets.values(), key=lambda bucket: bucket.key):
        if (
            bucket.rank.size_bytes >= query.size_bytes
            and bucket.rank.seats < query.seats_below
            and all(have >= least for have, least in zip(bucket.free, query.least, strict=True))
            and all(have < below for have, below in zip(bucket.free, query.below, strict=True))
        ):
            return bucket
    return None


def buckets_in_order(item: _Item | None) -> list[ClaimBucket]:
    """Return the buckets of the subtree in order. Check its key order, heap property and extremes."""
    if item is None:
        return []
    buckets = [*buckets_in_order(item.left), item.bucket, *buckets_in_order(item.right)]
    assert all(child is None or child.priority <= item.priority for child in (item.left, item.right))
    assert item.key == item.bucket.key
    assert item.free_min == tuple(map(min, zip(*(bucket.free for bucket in buckets), strict=True)))
    assert item.free_max == tuple(map(max, zip(*(bucket.free for bucket in buckets), strict=True)))
    assert item.seats_min == min(bucket.rank.seats for bucket in buckets)
    return buckets


@settings(max_examples=200, deadline=None)
@given(sequence=st.lists(steps, min_size=5, max_size=60), query=queries)
def test_the_tree_finds_the_same_bucket_as_a_walk(sequence: list[Step], query: Query) -> None:
    tree = RankedTree()
    buckets: dict[ClaimRank, ClaimBucket] = {}
    bucket_of: dict[str, ClaimBucket] = {}
    for step in sequence:
        apply(tree, buckets, bucket_of, step)
        found = buckets_in_order(tree._root)
        assert [bucket.key for bucket in found] == sorted(bucket.key for bucket in buckets.values())
        assert tree.first(query) is first_by_walk(buckets, query)


def test_a_search_after_a_key_continues_with_the_next_bucket() -> None:
    tree = RankedTree()
    wanted = [
        ClaimBucket(ClaimRank(1, 1, seats), HostResources(1, 1, 1), f"claim-{seats}") for seats in range(5)
    ]
    for bucket in reversed(wanted):
        tree.insert(bucket)
    query = Query(1, 10)
    found = [tree.first(query)]
    while found[-1] is not None:
        found.append(tree.first(query, after=found[-1].key))
    assert found == [*wanted, None]


def test_a_search_skips_buckets_without_enough_free_resources() -> None:
    tree = RankedTree()
    for number in range(4096):
        resources = HostResources(9, 9, 9) if number == 4000 else HostResources(1, 9, 9)
        tree.insert(ClaimBucket(ClaimRank(1, 1, 1), resources, f"claim-{number:04}"))
    visits = 0

    class Counting(Query):
        def __getattribute__(self, name: str) -> object:
            nonlocal visits
            visits += name == "seats_below"
            return super().__getattribute__(name)

    found = tree.first(Counting(1, 10, HostResources(2, 2, 2)))
    assert found is not None
    assert found.names == ["claim-4000"]
    assert visits < 200
