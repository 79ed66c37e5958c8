"""Devices and their allocation, modeled after kube-scheduler's structured-parameters allocator.

The first fit on a node wins: requests in order, alternatives in order, devices in pool and slice order. There
is no backtracking across requests, because our claims have one request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from controller.api import convert, core
from controller.api.dra import SLICES as SLICE_RESOURCE
from controller.api.dra import Device as DeviceObject
from controller.api.dra import ResourceSlice
from placement.quantity import parse_bytes
from placement.tolerations import untolerated
from placement.types import CounterUse, DeviceID, Taint
from simulation.actors.cel import CelDevice, matches
from simulation.apiserver.documents import Document, Record


@dataclass(frozen=True)
class Device:
    """A published device of one node."""

    identity: DeviceID
    cel: CelDevice
    taints: tuple[Taint, ...]
    draws: tuple[CounterUse, ...] = ()
    available: Mapping[tuple[str, str], int] = field(default_factory=dict, compare=False)
    """The counters of its pool."""


@dataclass(frozen=True)
class Allocation:
    """Devices for one claim. `rank` is the sum of the indexes of the chosen alternatives."""

    results: tuple[Document, ...]
    rank: int


@dataclass(frozen=True)
class Inventory:
    """The devices of each node, and the nodes with a pool that lists a device twice."""

    devices: Mapping[str, tuple[Device, ...]]
    invalid_nodes: frozenset[str]


def read_inventory(slices: Iterable[Record], taint_rules: Iterable[Record] = ()) -> Inventory:
    """Return the devices of complete, valid pools in their newest generation, by node, pool and slice.

    A DeviceTaintRule adds its taint to the device that it selects by driver, pool and name.
    """
    rules = [record.document["spec"] for record in taint_rules]
    by_pool: dict[tuple[str, str, str], list[ResourceSlice]] = {}
    for record in slices:
        resource_slice = SLICE_RESOURCE.decode(record.data)
        spec = resource_slice.spec
        by_pool.setdefault((spec.node_name or "", spec.driver, spec.pool.name), []).append(resource_slice)
    inventory: dict[str, list[Device]] = {}
    invalid_nodes = set()
    for (node, _, _), pool in sorted(by_pool.items(), key=lambda item: item[0]):
        newest = max(resource_slice.spec.pool.generation for resource_slice in pool)
        current = [resource_slice for resource_slice in pool if resource_slice.spec.pool.generation == newest]
        if len(current) == current[0].spec.pool.resource_slice_count:
            counters = {
                (counter.counter_set, counter.counter): counter.amount
                for each in current
                for counter in convert.device_slice(each).counters
            }
            devices = [_tainted(device, rules) for each in current for device in _devices(each, counters)]
            if len({device.identity for device in devices}) < len(devices):
                invalid_nodes.add(node)
            else:
                inventory.setdefault(node, []).extend(devices)
    return Inventory({node: tuple(found) for node, found in inventory.items()}, frozenset(invalid_nodes))


def _devices(resource_slice: ResourceSlice, counters: Mapping[tuple[str, str], int]) -> Iterator[Device]:
    spec = resource_slice.spec
    converted = convert.device_slice(resource_slice).devices
    for published, device in zip(spec.devices, converted, strict=True):
        yield Device(
            DeviceID(spec.driver, spec.pool.name, device.name),
            _cel_device(spec.driver, published),
            device.taints,
            device.draws,
            counters,
        )


def _tainted(device: Device, rules: Iterable[Document]) -> Device:
    identity = device.identity
    named = {"driver": identity.driver, "pool": identity.pool, "device": identity.device}
    added = [rule["taint"] for rule in rules if named.items() >= rule["deviceSelector"].items()]
    if not added:
        return device
    taints = convert.taints(msgspec.convert(added, list[core.Taint]))
    return replace(device, taints=(*device.taints, *taints))


def _cel_device(driver: str, device: DeviceObject) -> CelDevice:
    capacity = {
        name.removeprefix(f"{driver}/"): parse_bytes(item.value) for name, item in device.capacity.items()
    }
    attributes = {
        convert.qualified_name(name, driver): value
        for name, item in device.attributes.items()
        for value in (item.string, item.integer, item.boolean)
        if value is not None
    }
    return CelDevice(driver, capacity, attributes, bool(device.allow_multiple_allocations))


def allocated_devices(claims: Iterable[Record]) -> frozenset[DeviceID]:
    """Return the devices that claims have allocated."""
    return frozenset(
        DeviceID(result["driver"], result["pool"], result["device"])
        for record in claims
        for result in allocation_results(record.document)
        if not result.get("adminAccess")
    )


def allocation_results(claim: Document) -> list[Document]:
    """Return the devices of a claim's allocation."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list(allocation.get("devices", {}).get("results") or ())


def allocate(
    claim: Document,
    devices: Iterable[Device],
    classes: Mapping[str, Document],
    allocated: frozenset[DeviceID],
) -> Allocation | None:
    """Return devices of one node for all requests of a claim, `None` if they do not suffice.

    Raises:
        CelError: a selector fails on a device.
    """
    devices = tuple(devices)
    used = _counters_used(device for device in devices if device.identity in allocated)
    free = [device for device in devices if device.identity not in allocated]
    results: list[Document] = []
    ranks = 0
    for request in claim["spec"].get("devices", {}).get("requests") or ():
        for rank, (name, wanted) in enumerate(_alternatives(request)):
            chosen = _take(wanted, free, classes, used)
            if chosen is not None:
                free = [device for device in free if device not in chosen]
                used += _counters_used(chosen)
                results += [_result(name, device) for device in chosen]
                ranks += rank
                break
        else:
            return None
    return Allocation(tuple(results), ranks)


def _alternatives(request: Document) -> Iterator[tuple[str, Document]]:
    if "exactly" in request:
        yield request["name"], request["exactly"]
    for alternative in request.get("firstAvailable") or ():
        yield f"{request['name']}/{alternative['name']}", alternative


def requested_classes(claim: Document) -> Iterator[tuple[str, str]]:
    """Yield (request, device class) of every alternative of a claim."""
    for request in claim["spec"].get("devices", {}).get("requests") or ():
        for name, wanted in _alternatives(request):
            yield name, wanted["deviceClassName"]


def _counters_used(devices: Iterable[Device]) -> Counter[tuple[str, str, str]]:
    """Return what devices draw from each counter: by pool, counter set and counter."""
    used: Counter[tuple[str, str, str]] = Counter()
    for device in devices:
        for draw in device.draws:
            used[device.identity.pool, draw.counter_set, draw.counter] += draw.amount
    return used


def _take(
    wanted: Document,
    free: list[Device],
    classes: Mapping[str, Document],
    used: Counter[tuple[str, str, str]],
) -> tuple[Device, ...] | None:
    device_class = classes[wanted["deviceClassName"]]
    expressions = [
        item["cel"]["expression"]
        for selectors in (device_class.get("spec", {}).get("selectors"), wanted.get("selectors"))
        for item in selectors or ()
    ]
    tolerations = convert.template_tolerations(wanted.get("tolerations") or [])
    count = int(wanted.get("count", 1))
    chosen: list[Device] = []
    for device in free:
        if (
            all(matches(expression, device.cel) for expression in expressions)
            and not untolerated(device.taints, tolerations)
            and _counters_allow([*chosen, device], used)
        ):
            chosen.append(device)
    return tuple(chosen[:count]) if len(chosen) >= count else None


def _counters_allow(chosen: list[Device], used: Counter[tuple[str, str, str]]) -> bool:
    """Return whether the last of the chosen devices can be allocated beside the others."""
    drawn, device = used + _counters_used(chosen), chosen[-1]
    return all(
        drawn[device.identity.pool, draw.counter_set, draw.counter]
        <= device.available.get((draw.counter_set, draw.counter), 0)
        for draw in device.draws
    )


def _result(request: str, device: Device) -> Document:
    identity = device.identity
    return {
        "request": request,
        "driver": identity.driver,
        "pool": identity.pool,
        "device": identity.device,
    }
