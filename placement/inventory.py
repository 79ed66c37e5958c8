"""The devices of each node, assembled from ResourceSlices.

Slices arrive one by one and in any order, and a driver publishes a new generation of a pool slice by slice.
So a pool counts only by its highest generation, and only while all slices of that generation are present. A
pool also counts only while its device names are unique: driver, pool and device name identify a device in the
whole cluster. The inventory does not decide whether a node takes part in placement.

Source: contract §2.4; `ResourcePool` of `resource.k8s.io/v1`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from placement.types import Device, DeviceID, DeviceSlice

_SLICES_MISSING = "slices are missing"


class IgnoredPool(NamedTuple):
    """A pool that does not count."""

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


class DeviceSize(NamedTuple):
    """A device size on a node, and the number of devices with it."""

    memory_bytes: int
    device_count: int


class Inventory:
    """The pools of one driver, by name and by node.

    `_devices[pool]` exists exactly while the pool counts. It holds every device of the highest generation.
    """

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._slices: dict[str, DeviceSlice] = {}
        self._slices_by_pool: dict[str, dict[str, DeviceSlice]] = {}
        self._devices: dict[str, dict[DeviceID, Device]] = {}
        self._ignored: dict[str, IgnoredPool] = {}
        self._node_by_pool: dict[str, str] = {}
        self._pools_by_node: dict[str, set[str]] = {}

    def set_slice(self, slice_: DeviceSlice) -> tuple[str, ...]:
        """Store a slice. Return the nodes whose devices changed."""
        if slice_.driver != self._driver or not slice_.node:
            # A slice with this name may have counted before.
            return self.remove_slice(slice_.name)
        old = self._slices.get(slice_.name)
        if old == slice_:
            return ()
        changed: set[str] = set()
        if old is not None and old.pool != slice_.pool:
            changed.update(self.remove_slice(slice_.name))
        self._slices[slice_.name] = slice_
        self._slices_by_pool.setdefault(slice_.pool, {})[slice_.name] = slice_
        changed.update(self._refresh_pool(slice_.pool))
        return tuple(sorted(changed))

    def remove_slice(self, name: str) -> tuple[str, ...]:
        """Remove a slice. Return the nodes whose devices changed."""
        old = self._slices.pop(name, None)
        if old is None:
            return ()
        del self._slices_by_pool[old.pool][name]
        return self._refresh_pool(old.pool)

    def devices(self, node: str) -> Mapping[DeviceID, Device]:
        """Return the devices of the node's valid pools, including devices without memory."""
        pools = sorted(self._pools_by_node.get(node, ()))
        if len(pools) == 1:
            return self._devices[pools[0]]
        return {key: device for pool in pools for key, device in self._devices[pool].items()}

    def has_valid_pool(self, node: str) -> bool:
        """Return whether the node has a complete, valid pool. A node without one does not count."""
        return node in self._pools_by_node

    def sizes(self, node: str) -> tuple[DeviceSize, ...]:
        """Return the sizes of the node's devices, ascending. Devices without memory do not count."""
        counts = Counter(
            device.memory_bytes for device in self.devices(node).values() if device.memory_bytes is not None
        )
        return tuple(DeviceSize(memory_bytes, counts[memory_bytes]) for memory_bytes in sorted(counts))

    def ignored_pools(self) -> tuple[IgnoredPool, ...]:
        """Return the pools that do not count now, sorted by name."""
        return tuple(self._ignored[pool] for pool in sorted(self._ignored))

    def _refresh_pool(self, pool: str) -> tuple[str, ...]:
        """Recompute a pool's devices. Return the nodes whose devices changed."""
        node_before, before = self._node_by_pool.pop(pool, None), self._devices.pop(pool, None)
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
        if node == node_before and self._devices.get(pool) == before:
            return ()
        return tuple(sorted({name for name in (node_before, node) if name is not None}))

    def _collect_devices(self, pool: str, slices: Mapping[str, DeviceSlice]) -> None:
        newest = max(slice_.generation for slice_ in slices.values())
        # Slices in order of their names make the devices independent of the order of events.
        current = [slices[name] for name in sorted(slices) if slices[name].generation == newest]
        expected = max(slice_.slice_count for slice_ in current)
        nodes = sorted({slice_.node for slice_ in slices.values()})
        names = Counter(device.name for slice_ in current for device in slice_.devices)
        cause = ""
        if len(nodes) > 1:
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
        self._devices[pool] = {
            DeviceID(self._driver, pool, device.name): device
            for slice_ in current
            for device in slice_.devices
        }
