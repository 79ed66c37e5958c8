"""Selection of the best claim for a worker to join (contract §3, "Select a seat").

`check_claim` states every condition once, for one claim. `select_seat` uses the index to find the most
preferred claim that meets them all. Both only read. To keep the chosen seat free, the caller reserves it in
the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from placement.claim_state import ClaimState
from placement.host_resources import minimum_free
from placement.ranked_tree import ClaimBucket, Key, Query
from placement.seat_index import ClaimGroup, NodeInfo, SeatIndex, check_attributes
from placement.types import NO_REFUSALS, JoinCheck, PlacementRequest, Refusals, SeatOffer

Choice = tuple[int, Key]
"""Refusals of the worker by the claim's node, then the claim's key: lower is better."""


def select_seat(
    index: SeatIndex,
    claims: Mapping[str, ClaimState],
    nodes: Mapping[str, NodeInfo],
    request: PlacementRequest,
    refusals: Refusals,
) -> SeatOffer | None:
    """Return the best open claim: fewest refusals by its node, then the smallest device.

    Then the fewest owners and seats decide, then the name.
    """
    if not request.shareable or not refusals.may_join:
        return None

    def open_choice(bucket: ClaimBucket) -> Choice | None:
        for name in bucket.names:
            claim = claims[name].claim
            if claim is not None and worker_check(claims[name], nodes[claim.node], request, refusals) is None:
                return refusals.counts.get(claim.node, 0), (*bucket.rank, name)
        return None

    query = Query(request.memory_bytes, request.seat_limit, minimum_free(request.host))
    best: Choice | None = None
    for group in index.groups():
        if group.check(request) is None:
            best = _best_in_group(group, query, open_choice, best)
    if best is None:
        return None
    state = claims[best[1][-1]]
    if state.claim is None or state.derived is None:
        raise AssertionError(f"{state!r} is in the index without an allocation")
    return SeatOffer(claim=state.name, claim_uid=state.claim.uid, node=state.derived.node)


def _best_in_group(
    group: ClaimGroup,
    query: Query,
    open_choice: Callable[[ClaimBucket], Choice | None],
    best: Choice | None,
) -> Choice | None:
    """Return the best claim of the group, or `best` if that is better.

    The search passes only buckets that are closed to this worker or whose node refused it. There are few.
    """
    bucket = group.tree.first(query)
    while bucket is not None and (best is None or (0, bucket.key) < best):
        choice = open_choice(bucket)
        if choice is not None:
            best = choice if best is None else min(best, choice)
            if choice == (0, bucket.key):
                break
        # The bucket's first claim is closed, or its node refused: a later bucket may hold a better one.
        bucket = group.tree.first(query, after=bucket.key)
    return best


def worker_check(
    state: ClaimState, info: NodeInfo, request: PlacementRequest, refusals: Refusals
) -> JoinCheck | None:
    """Return the first condition between this claim and this worker that fails."""
    if request.node_terms and not info.matches(request.node_terms):
        return JoinCheck.NODE_UNMATCHED
    if request.worker_uid in state.workers:
        return JoinCheck.ALREADY_SEATED
    claim = state.claim
    if claim is not None and (claim.uid in refusals.claims or claim.node in refusals.nodes):
        return JoinCheck.REFUSED
    return None


def check_claim(
    state: ClaimState, info: NodeInfo | None, request: PlacementRequest, refusals: Refusals = NO_REFUSALS
) -> JoinCheck | None:
    """Return the first condition that the claim fails for this worker, None if the worker can join it.

    `info` is the claim's node.
    """
    if not request.shareable:
        return JoinCheck.NOT_SHAREABLE
    if state.claim is None or not state.claim.allocated:
        return JoinCheck.UNALLOCATED
    derived = state.derived
    if derived is None or info is None:
        return JoinCheck.NODE_UNKNOWN
    if derived.check is not None:
        return derived.check
    if info.node_class is None:
        return JoinCheck.NODE_UNKNOWN
    return (
        info.node_class.check(request)
        or (JoinCheck.DEVICE_TOO_SMALL if derived.rank.size_bytes < request.memory_bytes else None)
        or check_attributes(derived.accepted_by, request)
        or (JoinCheck.SEAT_LIMIT if derived.rank.seats >= request.seat_limit else None)
        or info.free.shortage(minimum_free(request.host))
        or worker_check(state, info, request, refusals)
    )


def check_place(state: ClaimState, info: NodeInfo | None, request: PlacementRequest) -> JoinCheck | None:
    """Return why an allocated claim cannot hold a Pod of this worker today, its own seat not counted.

    The checks cover node and device, and not what is free there.
    """
    derived = state.derived
    if derived is None:
        return None
    if info is None or info.node_class is None:
        return JoinCheck.NODE_UNKNOWN
    if derived.tainted:
        return JoinCheck.DEVICE_TAINTED
    return info.node_class.check(request) or check_size(state, request)


def check_size(state: ClaimState, request: PlacementRequest) -> JoinCheck | None:
    """Return whether the allocation has another number of devices, or smaller ones, than the worker needs."""
    claim, derived = state.claim, state.derived
    if claim is None or not claim.allocated or derived is None:
        return None
    if len(claim.devices) != request.device_count:
        return JoinCheck.NOT_ONE_DEVICE
    is_small = derived.smallest_bytes is not None and derived.smallest_bytes < request.memory_bytes
    return JoinCheck.DEVICE_TOO_SMALL if is_small else check_attributes(derived.accepted_by, request)
