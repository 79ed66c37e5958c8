"""Select a seat: the best claim that a worker can join now, or none.

Contract §3, "Select a seat". `check_claim` states every condition once, for one claim;
`select_seat` finds the first claim in order of preference for which all of them hold, through the index. Both
only read. That a choice stays free is the caller's to secure: it reserves in the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from placement.claim_state import ClaimState
from placement.host_resources import needed
from placement.ranked_tree import Key, Query
from placement.seat_index import ClaimGroup, NodeInfo, SeatIndex
from placement.types import JoinCheck, PlacementRequest, SeatOffer


def select_seat(
    index: SeatIndex, claims: Mapping[str, ClaimState], request: PlacementRequest, refused: Collection[str]
) -> SeatOffer | None:
    """The claim on the smallest device that fits, then with the fewest owners, seats, then by name.

    `refused` holds the UIDs of claims that have just refused this worker.
    """
    if not request.shareable:
        return None

    def is_open(name: str) -> bool:
        return personal_check(claims[name], request, refused) is None

    query = Query(request.memory_bytes, request.seat_limit, needed(request.host))
    best: Key | None = None
    for group in index.groups():
        if group.node_class.check(request) is None:
            best = _better(group, query, is_open, best)
    return None if best is None else _offer(claims[best[-1]])


def _better(group: ClaimGroup, query: Query, is_open: Callable[[str], bool], best: Key | None) -> Key | None:
    """The best claim of the group, if it is better than the best so far; else that."""
    cell = group.tree.first(query)
    while cell is not None and (best is None or cell.key < best):
        name = next(filter(is_open, cell.names), None)
        if name is not None:
            key = (*cell.rank, name)
            best = key if best is None else min(best, key)
            if name == cell.names[0]:
                break
        # Its first claim is closed to this worker: a later cell may hold a better one than what is left here.
        cell = group.tree.first(query, after=cell.key)
    return best


def personal_check(
    state: ClaimState, request: PlacementRequest, refused: Collection[str]
) -> JoinCheck | None:
    """The conditions that concern this claim and this worker alone."""
    if request.worker_uid in state.workers:
        return JoinCheck.ALREADY_SEATED
    if refused and state.claim is not None and state.claim.uid in refused:
        return JoinCheck.REFUSED
    return None


def check_claim(
    state: ClaimState, site: NodeInfo | None, request: PlacementRequest, refused: Collection[str] = ()
) -> JoinCheck | None:
    """The first condition that the claim fails for this worker; None: it can join. `site` is the claim's."""
    if not request.shareable:
        return JoinCheck.NOT_SHAREABLE
    if state.claim is None or not state.claim.allocated:
        return JoinCheck.UNALLOCATED
    standing = state.standing
    if standing is None or site is None:
        return JoinCheck.NODE_UNKNOWN
    if standing.check is not None:
        return standing.check
    if site.node_class is None:
        return JoinCheck.NODE_UNKNOWN
    return (
        site.node_class.check(request)
        or (JoinCheck.DEVICE_TOO_SMALL if standing.rank.size_bytes < request.memory_bytes else None)
        or (JoinCheck.SEAT_LIMIT if standing.rank.seats >= request.seat_limit else None)
        or site.room.shortage(needed(request.host))
        or personal_check(state, request, refused)
    )


def _offer(state: ClaimState) -> SeatOffer:
    if state.claim is None or state.standing is None:
        raise AssertionError(f"{state!r} stands in the index without an allocation")
    return SeatOffer(claim=state.name, claim_uid=state.claim.uid, node=state.standing.node)
