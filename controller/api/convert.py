"""From API objects to the facts that placement decides from. Pure translation, nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controller.api import core, dra
from controller.api.names import ENABLED_LABEL, role_node_label
from controller.api.pods import AnyPod, ForeignPod
from ledger.state import Seat
from placement.pod_requests import ContainerResources, PodResources, Resources, effective_request
from placement.quantity import parse_bytes, parse_millis
from placement.types import (
    EVERY_ROLE,
    AllocatedDevice,
    Amounts,
    Claim,
    Device,
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
"""The capacity that makes a device count, in the driver's own domain."""

_EFFECTS = {effect.value: effect for effect in TaintEffect}
_OPERATORS = ("", "Equal", "Exists")


def node(obj: core.Node) -> Node:
    """A Node. Without role labels it accepts every role, else only those whose label is `true`."""
    labels = obj.metadata.labels
    labelled = any(role_node_label(role.value) in labels for role in Role)
    chosen = frozenset(role for role in Role if labels.get(role_node_label(role.value)) == "true")
    allocatable = obj.status.allocatable
    memory = allocatable.get("memory")
    return Node(
        name=obj.metadata.name,
        enabled=is_enabled(obj),
        roles=chosen if labelled else EVERY_ROLE,
        ready=any(c.type == "Ready" and c.status == "True" for c in obj.status.conditions),
        cordoned=obj.spec.unschedulable,
        taints=taints(obj.spec.taints),
        allocatable=Amounts(
            memory_bytes=None if memory is None else parse_bytes(memory),
            cpu_millis=parse_millis(allocatable.get("cpu", 0)),
            pods=parse_bytes(allocatable.get("pods", 0)),
        ),
    )


def is_enabled(obj: core.Node) -> bool:
    """Whether a node is given to us."""
    return obj.metadata.labels.get(ENABLED_LABEL) == "true"


def taints(items: Iterable[core.Taint]) -> tuple[Taint, ...]:
    """Taints with a known effect; an unknown one has no meaning that could be obeyed."""
    return tuple(Taint(t.key, t.value, _EFFECTS[t.effect]) for t in items if t.effect in _EFFECTS)


def tolerations(items: Iterable[core.Toleration]) -> tuple[Toleration, ...]:
    """Tolerations with a known operator and effect; an unknown one is not known to tolerate anything.

    An empty effect stands for all of them.
    """
    return tuple(
        Toleration(item.key, item.operator == "Exists", item.value, _EFFECTS.get(item.effect))
        for item in items
        if item.operator in _OPERATORS and (not item.effect or item.effect in _EFFECTS)
    )


def template_tolerations(items: object) -> tuple[Toleration, ...]:
    """The tolerations of a Pod template. Raises `ValueError` where they are not a list of tolerations."""
    return tolerations(_convert(items, tuple[core.Toleration, ...]))


def device_slice(obj: dra.ResourceSlice) -> DeviceSlice | None:
    """A node-local ResourceSlice; `None` for the other kinds, which name no single node."""
    spec = obj.spec
    if not spec.node_name:
        return None
    return DeviceSlice(
        name=obj.metadata.name,
        driver=spec.driver,
        node=spec.node_name,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        devices=tuple(_device(d) for d in spec.devices),
    )


def _device(item: dra.Device) -> Device:
    capacity = item.capacity.get(MEMORY_CAPACITY)
    memory_bytes = None if capacity is None else parse_bytes(capacity.value)
    return Device(item.name, memory_bytes, taints(item.taints))


def claim(obj: dra.ResourceClaim, ledger_uid: str) -> Claim:
    """A managed claim. `ledger_uid` is the UID of the ledger of its name, empty if there is none."""
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


def allocation_node(allocation: dra.Allocation) -> str:
    """The one node that an allocation is bound to, empty where it names none (k/k: `matchFields`)."""
    if allocation.node_selector is None:
        return ""
    for term in allocation.node_selector.node_selector_terms:
        for requirement in term.match_fields:
            values = requirement.values
            if (requirement.key, requirement.operator, len(values)) == ("metadata.name", "In", 1):
                return values[0]
    return ""


def claim_node(obj: dra.ResourceClaim) -> str:
    """The one node that a claim is allocated to, empty where it is not or names none."""
    return "" if obj.status.allocation is None else allocation_node(obj.status.allocation)


def seat_info(seat: Seat, cpu_millis: int = 0) -> SeatInfo:
    """A seat as placement sees it; a request that cannot be read counts as nothing."""
    return SeatInfo(
        worker=seat.workload,
        worker_uid=seat.workload_uid,
        assignment_id=seat.assignment_id,
        owner_key=seat.owner_key,
        exclusive=seat.exclusive,
        host=Amounts(memory_bytes=_bytes_or_zero(seat.host_request), cpu_millis=cpu_millis),
    )


def _bytes_or_zero(quantity: str | float) -> int:
    try:
        return parse_bytes(quantity) if quantity else 0
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
    """A Pod's hold on its node.

    `claims` are the managed ones, for Pods of the workers' namespace; `owner_key` and `exclusive` are those
    of its worker, where that is known.
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


def effective_request_of(obj: AnyPod) -> Amounts:
    """What a Pod takes of its node; of a foreign one that is known since it was decoded."""
    if isinstance(obj, ForeignPod):
        return obj.requests
    return effective_request(pod_resources(obj.spec))


def pod_resources(spec: core.PodSpec) -> PodResources:
    """What decides on a Pod's effective request."""
    return PodResources(
        containers=tuple(_container(c) for c in spec.containers),
        init_containers=tuple(_container(c) for c in spec.init_containers),
        overhead=Resources.parse(spec.overhead),
        requests=Resources.parse(spec.resources.requests),
        limits=Resources.parse(spec.resources.limits),
    )


def template_resources(spec: Mapping[str, Any]) -> PodResources:
    """The same for the `spec` of a Pod template. Raises `ValueError` for what a Pod cannot hold."""
    return pod_resources(_convert(spec, core.PodSpec))


def _container(item: core.Container) -> ContainerResources:
    return ContainerResources(
        requests=Resources.parse(item.resources.requests),
        limits=Resources.parse(item.resources.limits),
        restart_always=item.restart_policy == "Always",
    )


def _convert(document: object, type_: Any) -> Any:
    try:
        return msgspec.convert(document, type_)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
