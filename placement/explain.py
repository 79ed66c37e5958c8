"""The sentence that explains why a worker waits (contract §3, "Explain").

`NoCapacity` means that waiting cannot help. `WaitingForCapacity` names what rules out the claims and nodes
that could hold the worker. The sentence has no counts of claims, seats or nodes: every hand-off would change
them and rewrite the status of every waiting worker.

An explanation needs no walk over claims. Its cost grows with the number of node classes, device sizes and
seat counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from placement.claim_state import ClaimState
from placement.host_resources import NO_LOWER_BOUND, NO_UPPER_BOUND, minimum_free
from placement.quantity import canonical_bytes
from placement.ranked_tree import Query
from placement.seat_index import ClaimGroup, NodeInfo, SeatIndex
from placement.select import check_claim
from placement.shape_catalog import ShapeCatalog
from placement.types import AcceptedValues, Explanation, JoinCheck, PlacementRequest, WaitCode

REASON_MAX_CHARACTERS: Final = 1024
"""Maximum length of `status.reason`."""

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
    JoinCheck.NODE_UNMATCHED: "nodes with devices do not match the node selector or affinity of the Pod",
    JoinCheck.REFUSED: "claims that fit have just refused this worker",
    JoinCheck.NOT_SHAREABLE: _HELD,
}
"""In the order of the sentence. A check without a text is no cause: the claim could never hold the worker."""


def explain_wait(
    catalog: ShapeCatalog,
    index: SeatIndex,
    request: PlacementRequest,
    refused: Iterable[tuple[ClaimState, NodeInfo | None]],
    *,
    unmatched: bool = False,
    unsupported: Sequence[str] = (),
    refused_devices: str = "",
) -> Explanation:
    """Return why the worker waits.

    `refused` holds the claims that have just refused it, with their nodes. `unmatched` states whether some
    node does not match `request.node_terms`. `refused_devices` states which free devices kube-scheduler
    refuses: without another cause, waiting cannot help.
    """
    no_capacity = _no_capacity(catalog, request)
    if no_capacity is not None:
        lead = "; ".join([no_capacity, *(f"{word} are not supported" for word in unsupported)])
        return _explanation(WaitCode.NO_CAPACITY, request, lead, ())
    checks = {
        *_node_checks(catalog, request),
        *_claim_checks(index, request),
        *([JoinCheck.NODE_UNMATCHED] if unmatched else ()),
        *(JoinCheck.REFUSED for state, info in refused if check_claim(state, info, request) is None),
    }
    # Two checks may share a text. A dict keeps each text once, in order.
    causes = tuple(dict.fromkeys(text for check, text in _CAUSES.items() if check in checks))
    code = WaitCode.NO_CAPACITY if refused_devices and not causes else WaitCode.WAITING_FOR_CAPACITY
    causes += (refused_devices,) if refused_devices else ()
    return _explanation(code, request, _free_capacity(request), causes)


def _explanation(
    code: WaitCode, request: PlacementRequest, lead: str, causes: tuple[str, ...]
) -> Explanation:
    parts = [lead]
    if request.seat_limit_is_set and request.shareable:
        parts.append(f"shared claims hold at most {request.seat_limit} workers")
    sentence = f"{code.value}: {'; '.join([*parts, *causes])}"
    if len(sentence) > REASON_MAX_CHARACTERS:
        sentence = f"{sentence[: REASON_MAX_CHARACTERS - 1]}…"
    return Explanation(code=code, causes=causes, sentence=sentence)


def _free_capacity(request: PlacementRequest) -> str:
    """Return which free capacity the fleet lacks."""
    memory = canonical_bytes(request.memory_bytes)
    if request.devices:
        return f"no node has {request.devices} free devices of {memory}"
    return f"no free device or seat of {memory}" if request.shareable else f"no free device of {memory}"


def _no_capacity(catalog: ShapeCatalog, request: PlacementRequest) -> str | None:
    """Return why this fleet can never hold the worker, None if it can."""
    if not catalog:
        return "no enabled node has devices"
    profiles = list(catalog.accepting(request.role))
    role, memory = request.role.value, canonical_bytes(request.memory_bytes)
    if not profiles:
        return f"no enabled node with devices accepts the role {role}"
    if any(profile.fitting_gib(request) for profile in profiles):
        return None
    attributes = " and ".join(map(_words, request.attributes))
    needs = f" with {attributes}" if attributes else ""
    largest = max(
        (size.memory_bytes for profile in profiles for size in profile.sizes if size.has_attributes(request)),
        default=None,
    )
    if largest is None:
        return f"no device for the role {role} has {attributes}"
    if largest < request.memory_bytes:
        return (
            f"no device{needs} for the role {role} holds {memory}, the largest has {canonical_bytes(largest)}"
        )
    count, gib = max(
        (count, gib) for profile in profiles for gib, count in profile.counts_by_gib(request).items()
    )
    return (
        f"no node for the role {role} has {request.device_count} devices{needs} of one size "
        f"that hold {memory}, the largest has {count} of {gib}Gi"
    )


def _words(accepted: AcceptedValues) -> str:
    """Return the text for an accepted attribute, such as `gpu.nvidia.com/productName A or B`."""
    return f"{accepted.name} {' or '.join(value.text for value in accepted.values)}"


def _node_checks(catalog: ShapeCatalog, request: PlacementRequest) -> Iterator[JoinCheck]:
    """Yield the checks that nodes with fitting devices fail."""
    for profile in catalog.accepting(request.role):
        check = profile.node_class.check(request)
        if check is not None and profile.fitting_gib(request):
            yield check


def _claim_checks(index: SeatIndex, request: PlacementRequest) -> Iterator[JoinCheck]:
    """Yield the checks that claims with a fitting device fail, on nodes that accept the worker."""
    for group in index.groups():
        if group.check(request) is None:
            yield from _count_checks(group, request)
            if request.shareable:
                yield from _shortages(group, request)


def _count_checks(group: ClaimGroup, request: PlacementRequest) -> Iterator[JoinCheck]:
    for key in group.counts:
        if key.size_bytes < request.memory_bytes:
            continue
        if not request.shareable:
            if key.check not in {JoinCheck.ADMIN_ACCESS, JoinCheck.MULTIPLE_ALLOCATIONS}:
                yield JoinCheck.NOT_SHAREABLE
        elif key.check is not None:
            yield key.check
        elif key.seats >= request.seat_limit:
            yield JoinCheck.SEAT_LIMIT


def _shortages(group: ClaimGroup, request: PlacementRequest) -> Iterator[JoinCheck]:
    """Yield each host resource that is the first to run out on the node of some claim with a free seat."""
    memory_bytes, cpu_millis, pods = minimum_free(request.host)
    enough_memory = NO_LOWER_BOUND._replace(memory_bytes=memory_bytes)
    bounds = (
        (JoinCheck.HOST_MEMORY, NO_LOWER_BOUND, NO_UPPER_BOUND._replace(memory_bytes=memory_bytes)),
        (JoinCheck.HOST_CPU, enough_memory, NO_UPPER_BOUND._replace(cpu_millis=cpu_millis)),
        (
            JoinCheck.HOST_PODS,
            enough_memory._replace(cpu_millis=cpu_millis),
            NO_UPPER_BOUND._replace(pods=pods),
        ),
    )
    for check, least, below in bounds:
        if group.tree.first(Query(request.memory_bytes, request.seat_limit, least, below)) is not None:
            yield check
