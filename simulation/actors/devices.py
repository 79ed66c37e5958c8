"""Devices and their allocation, modeled after kube-scheduler's structured-parameters allocator.

The first fit on a node wins: requests in order, alternatives in order, devices in pool and slice order. There
is no backtracking across requests, because our claims have one request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from controller.api import convert, core
from controller.api.dra import SLICES as SLICE_RESOURCE
from controller.api.dra import Device as DeviceObject
from controller.api.dra import ResourceSlice
from placement.quantity import parse_bytes
from placement.tolerations import untolerated
from placement.types import DeviceID, Taint
from simulation.actors.cel import CelDevice, matches
from simulation.apiserver.documents import Document, Record


@dataclass(frozen=True)
class Device:
    """A published device of one node."""

    identity: DeviceID
    cel: CelDevice
    taints: tuple[Taint, ...]


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
            devices = [_tainted(device, rules) for each in current for device in _devices(each)]
            if len({device.identity for device in devices}) < len(devices):
                invalid_nodes.add(node)
            else:
                inventory.setdefault(node, []).extend(devices)
    return Inventory({node: tuple(found) for node, found in inventory.items()}, frozenset(invalid_nodes))


def _devices(resource_slice: ResourceSlice) -> Iterator[Device]:
    spec = resource_slice.spec
    return (_device(spec.driver, spec.pool.name, device) for device in spec.devices)


def _tainted(device: Device, rules: Iterable[Document]) -> Device:
    identity = device.identity
    named = {"driver": identity.driver, "pool": identity.pool, "device": identity.device}
    added = [rule["taint"] for rule in rules if named.items() >= rule["deviceSelector"].items()]
    if not added:
        return device
    taints = convert.taints(msgspec.convert(added, list[core.Taint]))
    return replace(device, taints=(*device.taints, *taints))


def _device(driver: str, pool: str, device: DeviceObject) -> Device:
    capacity = {name: parse_bytes(item.value) for name, item in device.capacity.items()}
    return Device(
        DeviceID(driver, pool, device.name), CelDevice(driver, capacity), convert.taints(device.taints)
    )


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
    free = [device for device in devices if device.identity not in allocated]
    results: list[Document] = []
    ranks = 0
    for request in claim["spec"].get("devices", {}).get("requests") or ():
        for rank, (name, wanted) in enumerate(_alternatives(request)):
            chosen = _take(wanted, free, classes)
            if chosen is not None:
                free = [device for device in free if device not in chosen]
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


def _take(wanted: Document, free: list[Device], classes: Mapping[str, Document]) -> tuple[Device, ...] | None:
    device_class = classes[wanted["deviceClassName"]]
    expressions = [
        item["cel"]["expression"]
        for selectors in (device_class.get("spec", {}).get("selectors"), wanted.get("selectors"))
        for item in selectors or ()
    ]
    tolerations = convert.template_tolerations(wanted.get("tolerations") or [])
    count = int(wanted.get("count", 1))
    chosen = [
        device
        for device in free
        if all(matches(expression, device.cel) for expression in expressions)
        and not untolerated(device.taints, tolerations)
    ]
    return tuple(chosen[:count]) if len(chosen) >= count else None


def _result(request: str, device: Device) -> Document:
    identity = device.identity
    return {
        "request": request,
        "driver": identity.driver,
        "pool": identity.pool,
        "device": identity.device,
    }
