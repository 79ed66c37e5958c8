"""The devices of each node, assembled from ResourceSlices.

Slices arrive one by one and in any order, and a driver publishes a new generation of a pool slice by slice.
So only the highest generation of a pool is used, and only while all slices of that generation are present. A
pool is also ignored while its device names are not unique: driver, pool and device name identify a device in
the whole cluster. The inventory does not decide whether a node takes part in placement.

A demand for attributes is evaluated once for each device, not once for each decision. Devices differ in
identifiers that no worker requires, so only the demands that accept a device distinguish it.

Source: contract §2.4; `ResourcePool` and `CounterSet` of `resource.k8s.io/v1`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from placement.types import AttributeDemand, CounterUse, Device, DeviceID, DeviceSlice, PlacementRequest

MAX_DEMANDS: Final = 256
"""Demands that are evaluated ahead of decisions. A further one replaces the least recently used."""

_SLICES_MISSING: Final = "slices are missing"
_MULTIPLE_ALLOCATIONS: Final = "devices with allowMultipleAllocations"


class IgnoredPool(NamedTuple):
    """A pool that is ignored."""

    pool: str
    nodes: tuple[str, ...]
    generation: int
    cause: str
    slices_present: int
    slices_expected: int

    @property
    def incomplete(self) -> bool:
        """Whether slices are missing. They may still arrive."""
        return self.cause == _SLICES_MISSING


class Draw(NamedTuple):
    """What a device draws from one counter. The counter sets of a node are numbered."""

    counter_set: int
    counter: str
    amount: int
    available: int


class DeviceSize(NamedTuple):
    """Devices of a node that are equal for every decision, and their number."""

    memory_bytes: int
    device_count: int
    accepted_by: frozenset[AttributeDemand] = frozenset()
    draws: tuple[Draw, ...] = ()

    def fits(self, request: PlacementRequest) -> bool:
        """Return whether such a device has the memory and the attributes that the worker requires."""
        return self.memory_bytes >= request.memory_bytes and self.has_attributes(request)

    def has_attributes(self, request: PlacementRequest) -> bool:
        """Return whether such a device has the attributes that the worker requires."""
        return not request.attributes or request.attributes in self.accepted_by


def devices_at_once(sizes: Iterable[DeviceSize]) -> int:
    """Return how many of these devices can be allocated at the same time, according to their counters.

    The number is an upper bound: the parts of one device may exclude each other in more ways than one counter
    shows. It is exact for equal parts, and for devices without counters.
    """
    total = 0
    by_sets: dict[frozenset[int], list[DeviceSize]] = {}
    for size in sizes:
        if size.draws:
            by_sets.setdefault(frozenset(draw.counter_set for draw in size.draws), []).append(size)
        else:
            total += size.device_count
    return total + sum(min(_at_once_by_counter(parts)) for parts in by_sets.values())


def _at_once_by_counter(parts: list[DeviceSize]) -> Iterator[int]:
    """Yield for each counter how many of the parts it allows, beginning with the smallest parts."""
    all_parts = sum(part.device_count for part in parts)
    amounts: dict[tuple[int, str, int], list[int]] = {}
    for part in parts:
        for draw in part.draws:
            key = (draw.counter_set, draw.counter, draw.available)
            amounts.setdefault(key, []).extend([draw.amount] * part.device_count)
    for (_, _, available), drawn in amounts.items():
        fitting = sum(total <= available for total in accumulate(sorted(drawn)))
        yield all_parts - len(drawn) + fitting


class Inventory:
    """The pools of one driver, by name and by node.

    `_devices[pool]` exists exactly while the pool is in use. It holds every device of the highest generation.
    """

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._slices: dict[str, DeviceSlice] = {}
        self._slices_by_pool: dict[str, dict[str, DeviceSlice]] = {}
        self._devices: dict[str, dict[DeviceID, Device]] = {}
        self._ignored: dict[str, IgnoredPool] = {}
        self._node_by_pool: dict[str, str] = {}
        self._pools_by_node: dict[str, set[str]] = {}
        self._counters: dict[str, dict[tuple[str, str], int]] = {}
        self._unsupported: Counter[str] = Counter()
        self._demands: dict[AttributeDemand, None] = {}

    def set_slice(self, slice_: DeviceSlice) -> tuple[str, ...]:
        """Store a slice. Return the nodes whose devices changed."""
        if slice_.driver != self._driver or not (slice_.node or slice_.node_selection):
            # A slice with this name may have counted before.
            return self.remove_slice(slice_.name)
        old = self._slices.get(slice_.name)
        if old == slice_:
            return ()
        changed: set[str] = set()
        if old is not None and old.pool != slice_.pool:
            changed.update(self.remove_slice(slice_.name))
        elif old is not None:
            self._count_unsupported(old, -1)
        self._count_unsupported(slice_, 1)
        self._slices[slice_.name] = slice_
        self._slices_by_pool.setdefault(slice_.pool, {})[slice_.name] = slice_
        changed.update(self._refresh_pool(slice_.pool))
        return tuple(sorted(changed))

    def remove_slice(self, name: str) -> tuple[str, ...]:
        """Remove a slice. Return the nodes whose devices changed."""
        old = self._slices.pop(name, None)
        if old is None:
            return ()
        self._count_unsupported(old, -1)
        del self._slices_by_pool[old.pool][name]
        return self._refresh_pool(old.pool)

    def devices(self, node: str) -> Mapping[DeviceID, Device]:
        """Return the devices of the node's valid pools, including devices without memory."""
        pools = sorted(self._pools_by_node.get(node, ()))
        if len(pools) == 1:
            return self._devices[pools[0]]
        return {key: device for pool in pools for key, device in self._devices[pool].items()}

    def has_valid_pool(self, node: str) -> bool:
        """Return whether the node has a complete, valid pool. A node without one is ignored."""
        return node in self._pools_by_node

    def sizes(self, node: str) -> tuple[DeviceSize, ...]:
        """Return the sizes of the node's usable devices (`Device.counts`), ascending."""
        sets = {
            key: number
            for number, key in enumerate(
                (pool, name)
                for pool in sorted(self._pools_by_node.get(node, ()))
                for name in sorted({name for name, _ in self._counters[pool]})
            )
        }
        sizes = Counter(
            DeviceSize(
                device.memory_bytes,
                1,
                device.accepted_by(self._demands),
                tuple(sorted(self._draw(key.pool, use, sets) for use in device.draws)),
            )
            for key, device in self.devices(node).items()
            if device.memory_bytes is not None and device.counts
        )
        return tuple(
            size._replace(device_count=sizes[size])
            for size in sorted(sizes, key=lambda s: (s.memory_bytes, sorted(s.accepted_by), s.draws))
        )

    def _draw(self, pool: str, use: CounterUse, sets: Mapping[tuple[str, str], int]) -> Draw:
        """Return a device's draw. A counter that the pool does not publish has the value 0."""
        available = self._counters[pool].get((use.counter_set, use.counter), 0)
        return Draw(sets.get((pool, use.counter_set), -1), use.counter, use.amount, available)

    @property
    def demands(self) -> Iterable[AttributeDemand]:
        """The demands that distinguish devices."""
        return self._demands.keys()

    def add_demand(self, demand: AttributeDemand) -> tuple[str, ...]:
        """Evaluate a demand on every device from now on. Return the nodes with a device that it concerns."""
        if demand in self._demands:
            del self._demands[demand]
            self._demands[demand] = None
            return ()
        dropped = [next(iter(self._demands))] if len(self._demands) >= MAX_DEMANDS else []
        for each in dropped:
            del self._demands[each]
        self._demands[demand] = None
        changed = (demand, *dropped)
        return tuple(
            node
            for node in sorted(self._pools_by_node)
            if any(device.accepted_by(changed) for device in self.devices(node).values())
        )

    def unsupported(self) -> tuple[str, ...]:
        """Return the unsupported ways of publishing devices that some slice uses."""
        return tuple(sorted(self._unsupported))

    @property
    def has_multiple_allocations(self) -> bool:
        """Whether any slice of the driver has a device that several claims can hold at once."""
        return _MULTIPLE_ALLOCATIONS in self._unsupported

    def _count_unsupported(self, slice_: DeviceSlice, sign: int) -> None:
        words = [f"devices by {slice_.node_selection}"] if slice_.node_selection else []
        if any(device.multiple_allocations for device in slice_.devices):
            words.append(_MULTIPLE_ALLOCATIONS)
        for word in words:
            self._unsupported[word] += sign
            if not self._unsupported[word]:
                del self._unsupported[word]

    def ignored_pools(self) -> tuple[IgnoredPool, ...]:
        """Return the pools that are ignored now, sorted by name."""
        return tuple(self._ignored[pool] for pool in sorted(self._ignored))

    def _refresh_pool(self, pool: str) -> tuple[str, ...]:
        """Recompute a pool's devices. Return the nodes whose devices changed."""
        node_before, before = self._node_by_pool.pop(pool, None), self._devices.pop(pool, None)
        counters_before = self._counters.pop(pool, None)
        self._ignored.pop(pool, None)
        if node_before is not None:
            self._pools_by_node[node_before].discard(pool)
            if not self._pools_by_node[node_before]:
                del self._pools_by_node[node_before]
        if slices := self._slices_by_pool[pool]:
            self._collect_devices(pool, slices)
        else:
            del self._slices_by_pool[pool]
        node = self._node_by_pool.get(pool)
        after = (node, self._devices.get(pool), self._counters.get(pool))
        if after == (node_before, before, counters_before):
            return ()
        return tuple(sorted({name for name in (node_before, node) if name is not None}))

    def _collect_devices(self, pool: str, slices: Mapping[str, DeviceSlice]) -> None:
        newest = max(slice_.generation for slice_ in slices.values())
        # Slices in order of their names make the devices independent of the order of events.
        current = [slices[name] for name in sorted(slices) if slices[name].generation == newest]
        expected = max(slice_.slice_count for slice_ in current)
        nodes = sorted({slice_.node for slice_ in slices.values() if slice_.node})
        selections = sorted({slice_.node_selection for slice_ in current if slice_.node_selection})
        names = Counter(device.name for slice_ in current for device in slice_.devices)
        cause = ""
        if selections:
            cause = f"{selections[0]} is not supported"
        elif len(nodes) > 1:
            cause = "several nodes have a pool of this name"
        elif any(slice_.slice_count != len(current) for slice_ in current):
            cause = _SLICES_MISSING
        elif len(names) < names.total():
            cause = f"device {names.most_common(1)[0][0]} is listed twice"
        if cause:
            self._ignored[pool] = IgnoredPool(pool, tuple(nodes), newest, cause, len(current), expected)
            return
        (self._node_by_pool[pool],) = nodes
        self._pools_by_node.setdefault(nodes[0], set()).add(pool)
        self._counters[pool] = {
            (counter.counter_set, counter.counter): counter.amount
            for slice_ in current
            for counter in slice_.counters
        }
        self._devices[pool] = {
            DeviceID(self._driver, pool, device.name): device
            for slice_ in current
            for device in slice_.devices
        }
