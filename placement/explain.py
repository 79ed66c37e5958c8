"""Why a worker waits, in one sentence that stands still while the causes do.

Contract §3, "Explain". `NoCapacity` means that waiting cannot help; `WaitingForCapacity` names
what rules out the claims and nodes that could hold the worker. No count of claims, seats or nodes is in the
text: it would change with every hand-off and rewrite every waiter's status. Details on demand are
`Fleet.candidates`.

Nothing here walks over claims: the answer costs the number of node classes, device sizes and seat counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from placement.claim_state import ClaimState
from placement.host_resources import ANY_ROOM, ENDLESS_ROOM, needed
from placement.quantity import canonical_bytes
from placement.ranked_tree import Query
from placement.seat_index import ClaimGroup, NodeInfo, SeatIndex
from placement.select import check_claim
from placement.shape_catalog import NodeProfile, ShapeCatalog
from placement.types import Explanation, JoinCheck, PlacementRequest, WaitCode

REASON_MAX_CHARACTERS: Final = 1024
"""`status.reason` holds at most so many characters."""

_EXCLUSIVE: Final = "exclusive workers hold devices that fit"
_ENDING: Final = "claims that fit are ending"
_HELD: Final = "other workers hold devices that fit"

_CAUSES: Final[dict[JoinCheck, str]] = {
    JoinCheck.SEAT_LIMIT: "claims that fit are full",
    JoinCheck.EXCLUSIVE: _EXCLUSIVE,
    JoinCheck.NOT_ONE_DEVICE: _EXCLUSIVE,
    JoinCheck.ENDING: _ENDING,
    JoinCheck.NO_SEATS: _ENDING,
    JoinCheck.DEVICE_TAINTED: "devices of claims that fit are tainted",
    JoinCheck.HOST_MEMORY: "nodes of claims that fit lack host memory",
    JoinCheck.HOST_CPU: "nodes of claims that fit lack CPU",
    JoinCheck.HOST_PODS: "nodes of claims that fit lack Pod slots",
    JoinCheck.NODE_NOT_READY: "nodes with devices that fit are not ready",
    JoinCheck.NODE_CORDONED: "nodes with devices that fit are cordoned",
    JoinCheck.NODE_TAINTED: "nodes with devices that fit have taints that the template does not tolerate",
    JoinCheck.REFUSED: "claims that fit have just refused this worker",
    JoinCheck.NOT_SHAREABLE: _HELD,
}
"""In the order of the sentence. A check without a text is no cause: the claim could not have served."""


def explain_wait(
    catalog: ShapeCatalog,
    index: SeatIndex,
    request: PlacementRequest,
    refused: Iterable[tuple[ClaimState, NodeInfo | None]],
) -> Explanation:
    """The reason of a worker that nothing took. `refused`: the claims that have just refused it."""
    hopeless = _hopeless(catalog, request)
    if hopeless is not None:
        return _explanation(WaitCode.NO_CAPACITY, request, hopeless, ())
    checks = {
        *_node_checks(catalog, request),
        *_claim_checks(index, request),
        *_refusals(request, refused),
    }
    # Two checks may share a text; a dict keeps one of each, in order.
    causes = tuple(dict.fromkeys(text for check, text in _CAUSES.items() if check in checks))
    return _explanation(WaitCode.WAITING_FOR_CAPACITY, request, _lead(request), causes)


def _explanation(
    code: WaitCode, request: PlacementRequest, lead: str, causes: tuple[str, ...]
) -> Explanation:
    limit = (
        [f"shared claims hold at most {request.seat_limit} workers"]
        if request.seat_limit_is_set and request.shareable
        else []
    )
    sentence = f"{code.value}: {'; '.join([lead, *limit, *causes])}"
    if len(sentence) > REASON_MAX_CHARACTERS:
        sentence = f"{sentence[: REASON_MAX_CHARACTERS - 1]}…"
    return Explanation(code=code, causes=causes, sentence=sentence)


def _lead(request: PlacementRequest) -> str:
    memory = canonical_bytes(request.memory_bytes)
    if request.devices:
        return f"no node has {request.devices} free devices of {memory}"
    return f"no free device or seat of {memory}" if request.shareable else f"no free device of {memory}"


def _hopeless(catalog: ShapeCatalog, request: PlacementRequest) -> str | None:
    """Why no amount of waiting helps on the fleet that exists, None where it may."""
    if not catalog:
        return "no enabled node has devices"
    accepting = list(catalog.accepting(request.role))
    role, memory = request.role.value, canonical_bytes(request.memory_bytes)
    if not accepting:
        return f"no enabled node with devices accepts the role {role}"
    if any(profile.tiers(request) for profile in accepting):
        return None
    largest = max(profile.sizes[-1].memory_bytes for profile in accepting)
    if largest < request.memory_bytes:
        return f"no device for the role {role} holds {memory}, the largest has {canonical_bytes(largest)}"
    count, gib = max(_groups(accepting, request.memory_bytes))
    return (
        f"no node for the role {role} has {request.devices} devices of one size that hold {memory}, "
        f"the largest has {count} of {gib}Gi"
    )


def _groups(profiles: Iterable[NodeProfile], memory_bytes: int) -> Iterator[tuple[int, int]]:
    """(Number, GiB) of the equal devices that one node has and that hold so much memory."""
    for profile in profiles:
        for gib, count in profile.shapes(memory_bytes).items():
            yield count, gib


def _node_checks(catalog: ShapeCatalog, request: PlacementRequest) -> Iterator[JoinCheck]:
    """What rules out nodes with the devices for it."""
    for profile in catalog.accepting(request.role):
        check = profile.node_class.check(request)
        if check is not None and profile.tiers(request):
            yield check


def _claim_checks(index: SeatIndex, request: PlacementRequest) -> Iterator[JoinCheck]:
    """What rules out claims with a device for it, on nodes that would take it."""
    for group in index.groups():
        if group.node_class.check(request) is None:
            yield from _kind_checks(group, request)
            if request.shareable:
                yield from _shortages(group, request)


def _kind_checks(group: ClaimGroup, request: PlacementRequest) -> Iterator[JoinCheck]:
    for kind in group.kinds:
        if kind.size_bytes < request.memory_bytes:
            continue
        if not request.shareable:
            if kind.check is not JoinCheck.ADMIN_ACCESS:
                yield JoinCheck.NOT_SHAREABLE
        elif kind.check is not None:
            yield kind.check
        elif kind.seats >= request.seat_limit:
            yield JoinCheck.SEAT_LIMIT


def _shortages(group: ClaimGroup, request: PlacementRequest) -> Iterator[JoinCheck]:
    """The host resources that run out first on the node of some claim with a seat left."""
    memory_bytes, cpu_millis, pods = needed(request.host)
    boxes = (
        (JoinCheck.HOST_MEMORY, ANY_ROOM, ENDLESS_ROOM._replace(memory_bytes=memory_bytes)),
        (
            JoinCheck.HOST_CPU,
            ANY_ROOM._replace(memory_bytes=memory_bytes),
            ENDLESS_ROOM._replace(cpu_millis=cpu_millis),
        ),
        (
            JoinCheck.HOST_PODS,
            ANY_ROOM._replace(memory_bytes=memory_bytes, cpu_millis=cpu_millis),
            ENDLESS_ROOM._replace(pods=pods),
        ),
    )
    for check, least, below in boxes:
        if group.tree.first(Query(request.memory_bytes, request.seat_limit, least, below)) is not None:
            yield check


def _refusals(
    request: PlacementRequest, refused: Iterable[tuple[ClaimState, NodeInfo | None]]
) -> Iterator[JoinCheck]:
    for state, site in refused:
        if check_claim(state, site, request) is None:
            yield JoinCheck.REFUSED
