"""Selection of the best claim for a worker to join (contract §3, "Select a seat").

`check_claim` states every condition once, for one claim. `select_seat` uses the index to find the most
preferred claim that meets them all. Both only read. To keep the chosen seat free, the caller reserves it in
the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from placement.claim_state import ClaimState
from placement.host_resources import minimum_free
from placement.ranked_tree import Key, Query
from placement.seat_index import ClaimGroup, NodeInfo, SeatIndex
from placement.types import JoinCheck, PlacementRequest, SeatOffer


def select_seat(
    index: SeatIndex, claims: Mapping[str, ClaimState], request: PlacementRequest, refused: Collection[str]
) -> SeatOffer | None:
    """Return the claim on the smallest device that fits, then with the fewest owners and seats, then by name.

    `refused` holds the UIDs of claims that have just refused this worker.
    """
    if not request.shareable:
        return None

    def is_open(name: str) -> bool:
        return worker_check(claims[name], request, refused) is None

    query = Query(request.memory_bytes, request.seat_limit, minimum_free(request.host))
    best: Key | None = None
    for group in index.groups():
        if group.node_class.check(request) is None:
            best = _best_in_group(group, query, is_open, best)
    if best is None:
        return None
    state = claims[best[-1]]
    if state.claim is None or state.derived is None:
        raise AssertionError(f"{state!r} is in the index without an allocation")
    return SeatOffer(claim=state.name, claim_uid=state.claim.uid, node=state.derived.node)


def _best_in_group(
    group: ClaimGroup, query: Query, is_open: Callable[[str], bool], best: Key | None
) -> Key | None:
    """Return the best claim of the group, or `best` if that is better."""
    bucket = group.tree.first(query)
    while bucket is not None and (best is None or bucket.key < best):
        name = next(filter(is_open, bucket.names), None)
        if name is not None:
            key = (*bucket.rank, name)
            best = key if best is None else min(best, key)
            if name == bucket.names[0]:
                break
        # The bucket's first claim is closed to this worker, so a later bucket may hold a better one.
        bucket = group.tree.first(query, after=bucket.key)
    return best


def worker_check(state: ClaimState, request: PlacementRequest, refused: Collection[str]) -> JoinCheck | None:
    """Return the first condition between this claim and this worker that fails."""
    if request.worker_uid in state.workers:
        return JoinCheck.ALREADY_SEATED
    if refused and state.claim is not None and state.claim.uid in refused:
        return JoinCheck.REFUSED
    return None


def check_claim(
    state: ClaimState, info: NodeInfo | None, request: PlacementRequest, refused: Collection[str] = ()
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
        or (JoinCheck.SEAT_LIMIT if derived.rank.seats >= request.seat_limit else None)
        or info.free.shortage(minimum_free(request.host))
        or worker_check(state, request, refused)
    )
