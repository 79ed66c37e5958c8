"""Convert API objects to the types of `placement`. This module makes no decisions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from controller.api import core, dra
from controller.api.names import ENABLED_LABEL, role_node_label
from controller.api.pods import AnyPod, effective_request_of, effective_request_of_spec
from ledger.state import Seat
from placement.quantity import parse_bytes, parse_millis
from placement.types import (
    EVERY_ROLE,
    AllocatedDevice,
    Amounts,
    AttributeValue,
    Claim,
    CounterUse,
    Device,
    DeviceAttribute,
    DeviceID,
    DeviceSlice,
    Node,
    PodUse,
    Role,
    SeatInfo,
    Taint,
    TaintEffect,
    Toleration,
)

MEMORY_CAPACITY = "memory"
"""A device counts only if it has this capacity, in the driver's own domain."""

_ATTRIBUTES_CACHED: Final = 4096
"""The devices of a fleet repeat few attributes, so that equal ones share one object."""

_EFFECTS = {effect.value: effect for effect in TaintEffect}
_OPERATORS = ("", "Equal", "Exists")


def node(obj: core.Node, label_keys: Collection[str] = ()) -> Node:
    """Convert a Node, with the labels of these keys.

    Without role labels it accepts every role, else the roles whose label is `true`.
    """
    labels = obj.metadata.labels
    has_role_label = any(role_node_label(role.value) in labels for role in Role)
    labeled_roles = frozenset(role for role in Role if labels.get(role_node_label(role.value)) == "true")
    allocatable = obj.status.allocatable
    memory = allocatable.get("memory")
    return Node(
        name=obj.metadata.name,
        enabled=is_enabled(obj),
        roles=labeled_roles if has_role_label else EVERY_ROLE,
        ready=any(c.type == "Ready" and c.status == "True" for c in obj.status.conditions),
        cordoned=obj.spec.unschedulable,
        taints=taints(obj.spec.taints),
        allocatable=Amounts(
            memory_bytes=None if memory is None else _or_zero(parse_bytes, memory),
            cpu_millis=_or_zero(parse_millis, allocatable.get("cpu", 0)),
            pods=_or_zero(parse_bytes, allocatable.get("pods", 0)),
        ),
        labels=tuple((key, labels[key]) for key in sorted(label_keys) if key in labels),
    )


def is_enabled(obj: core.Node) -> bool:
    """Return whether a node is enabled for OpenRL workers."""
    return obj.metadata.labels.get(ENABLED_LABEL) == "true"


def taints(items: Iterable[core.Taint]) -> tuple[Taint, ...]:
    """Convert the taints whose effect is known. An unknown effect has no defined meaning."""
    return tuple(Taint(t.key, t.value, _EFFECTS[t.effect]) for t in items if t.effect in _EFFECTS)


def tolerations(items: Iterable[core.Toleration]) -> tuple[Toleration, ...]:
    """Convert the tolerations whose operator and effect are known. An empty effect matches every effect."""
    return tuple(
        Toleration(item.key, item.operator == "Exists", item.value, _EFFECTS.get(item.effect))
        for item in items
        if item.operator in _OPERATORS and (not item.effect or item.effect in _EFFECTS)
    )


def lasting_tolerations(items: Iterable[core.Toleration]) -> tuple[Toleration, ...]:
    """Convert the tolerations without an end.

    A toleration with `tolerationSeconds` only postpones an eviction, and every Pod gets two of them by
    default.
    """
    return tolerations(item for item in items if item.toleration_seconds is None)


def template_tolerations(items: object, *, lasting: bool = False) -> tuple[Toleration, ...]:
    """Convert the (lasting) tolerations of a Pod template. Raises `ValueError` for any other document."""
    converted = _convert(items, tuple[core.Toleration, ...])
    return lasting_tolerations(converted) if lasting else tolerations(converted)


def device_slice(obj: dra.ResourceSlice) -> DeviceSlice:
    """Convert a ResourceSlice."""
    spec = obj.spec
    return DeviceSlice(
        name=obj.metadata.name,
        driver=spec.driver,
        node=spec.node_name or "",
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        devices=tuple(_device(d, spec.driver) for d in spec.devices),
        counters=_counters((each.name, each.counters) for each in spec.shared_counters),
        node_selection="" if spec.node_name else spec.node_selection,
    )


def _device(item: dra.Device, driver: str) -> Device:
    # A name without a domain is in the driver's own domain, so both forms name one capacity.
    capacity = item.capacity.get(MEMORY_CAPACITY) or item.capacity.get(f"{driver}/{MEMORY_CAPACITY}")
    return Device(
        name=item.name,
        memory_bytes=None if capacity is None else _or_zero(parse_bytes, capacity.value),
        taints=taints(item.taints),
        attributes=_attributes(item.attributes, driver),
        draws=_counters((each.counter_set, each.counters) for each in item.consumes_counters),
        multiple_allocations=bool(item.allow_multiple_allocations),
    )


def qualified_name(name: str, driver: str) -> str:
    """Return the name of an attribute with its domain. Without one it is in the driver's own domain."""
    return name if "/" in name else f"{driver}/{name}"


def attribute_value(value: str | int) -> AttributeValue:
    """Convert a value of a device attribute."""
    if isinstance(value, bool):
        return AttributeValue("bool", str(value).lower())
    return AttributeValue("int" if isinstance(value, int) else "string", str(value))


def _attributes(items: Mapping[str, dra.DeviceAttribute], driver: str) -> tuple[DeviceAttribute, ...]:
    found = (
        (name, next((v for v in (item.string, item.integer, item.boolean) if v is not None), None))
        for name, item in items.items()
    )
    return tuple(
        sorted(_attribute(qualified_name(name, driver), value) for name, value in found if value is not None)
    )


@lru_cache(maxsize=_ATTRIBUTES_CACHED, typed=True)
def _attribute(name: str, value: str | int) -> DeviceAttribute:
    return DeviceAttribute(name, attribute_value(value))


def _counters(sets: Iterable[tuple[str, Mapping[str, dra.DeviceCapacity]]]) -> tuple[CounterUse, ...]:
    return tuple(
        CounterUse(counter_set, counter, _or_zero(parse_bytes, capacity.value))
        for counter_set, counters in sets
        for counter, capacity in counters.items()
    )


def claim(obj: dra.ResourceClaim, ledger_uid: str) -> Claim:
    """Convert a managed claim. `ledger_uid` is the UID of its ledger, empty without one."""
    allocation = obj.status.allocation
    owners = {owner.uid for owner in obj.metadata.owner_references}
    return Claim(
        name=obj.metadata.name,
        uid=obj.metadata.uid,
        allocated=allocation is not None,
        node=claim_node(obj),
        devices=() if allocation is None else tuple(_allocated(r) for r in allocation.devices.results),
        joinable=not obj.deleting and bool(ledger_uid) and ledger_uid in owners,
    )


def _allocated(result: dra.AllocationResult) -> AllocatedDevice:
    identity = DeviceID(result.driver, result.pool, result.device)
    return AllocatedDevice(
        identity,
        admin_access=bool(result.admin_access),
        tolerations=tolerations(result.tolerations),
    )


def claim_node(obj: dra.ResourceClaim) -> str:
    """Return the one node of a claim's allocation, or an empty string.

    Kubernetes names it in `matchFields`.
    """
    allocation = obj.status.allocation
    if allocation is None or allocation.node_selector is None:
        return ""
    for term in allocation.node_selector.node_selector_terms:
        for requirement in term.match_fields:
            values = requirement.values
            if (requirement.key, requirement.operator, len(values)) == ("metadata.name", "In", 1):
                return values[0]
    return ""


def seat_info(seat: Seat, host: Amounts | None = None) -> SeatInfo:
    """Convert a seat. `host` holds its worker's requests, if known. An invalid host request counts as 0."""
    if host is None:
        host = Amounts(memory_bytes=_or_zero(parse_bytes, seat.host_request), cpu_millis=0)
    return SeatInfo(
        worker=seat.workload,
        worker_uid=seat.workload_uid,
        assignment_id=seat.assignment_id,
        owner_key=seat.owner_key,
        exclusive=seat.exclusive,
        host=host,
    )


def _or_zero(parse: Callable[[str | float], int], quantity: str | float) -> int:
    try:
        return parse(quantity) if quantity else 0
    except ValueError:
        return 0


def pod_use(
    obj: AnyPod,
    *,
    worker_uid: str = "",
    claims: tuple[str, ...] = (),
    owner_key: str = "",
    exclusive: bool = False,
) -> PodUse:
    """Convert a Pod to its use of its node.

    `claims` are the managed claims of a Pod in the workers' namespace. `owner_key` and `exclusive` are those
    of its worker, if it is known.
    """
    return PodUse(
        uid=obj.metadata.uid,
        node=obj.node_name,
        requests=effective_request_of(obj),
        worker_uid=worker_uid,
        claims=claims,
        owner_key=owner_key,
        exclusive=exclusive,
    )


def template_request(spec: Mapping[str, Any]) -> Amounts:
    """Return the effective request of a template's Pod spec. Raises `ValueError` for an invalid spec."""
    return effective_request_of_spec(_convert(spec, core.PodSpec))


def _convert(document: object, type_: Any) -> Any:
    try:
        return msgspec.convert(document, type_)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
