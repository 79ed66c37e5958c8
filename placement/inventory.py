"""The devices of each node, assembled from ResourceSlices.

Slices arrive one by one and in any order, and a driver publishes a new generation of a pool slice by slice.
So a pool counts only by its highest generation, and only while all slices of that generation are present. The
inventory does not decide whether a node takes part in placement.

Source: contract §2.4; `ResourcePool` of `resource.k8s.io/v1`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from placement.types import Device, DeviceID, DeviceSlice


class PoolID(NamedTuple):
    """The identity of a node-local pool: pools with the same name on two nodes are two pools."""

    node: str
    pool: str


class IncompletePool(NamedTuple):
    """A pool that does not count because slices are missing."""

    node: str
    pool: str
    generation: int
    slices_present: int
    slices_expected: int


class DeviceSize(NamedTuple):
    """A device size on a node, and the number of devices with it."""

    memory_bytes: int
    device_count: int


class Inventory:
    """The pools of one driver, by node.

    `_devices[pool]` exists exactly while the pool is complete. It holds every device of the highest
    generation.
    """

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._slices: dict[str, DeviceSlice] = {}
        self._slices_by_pool: dict[PoolID, dict[str, DeviceSlice]] = {}
        self._devices: dict[PoolID, dict[DeviceID, Device]] = {}
        self._incomplete: dict[PoolID, IncompletePool] = {}
        self._pools_by_node: dict[str, set[str]] = {}

    def set_slice(self, slice_: DeviceSlice) -> tuple[str, ...]:
        """Store a slice. Return the nodes whose devices changed, at most two."""
        if slice_.driver != self._driver or not slice_.node:
            # A slice with this name may have counted before.
            return self.remove_slice(slice_.name)
        old = self._slices.get(slice_.name)
        if old == slice_:
            return ()
        changed: set[str] = set()
        if old is not None and _pool_id(old) != _pool_id(slice_):
            changed.update(self.remove_slice(slice_.name))
        self._slices[slice_.name] = slice_
        self._slices_by_pool.setdefault(_pool_id(slice_), {})[slice_.name] = slice_
        changed.update(self._refresh_pool(_pool_id(slice_)))
        return tuple(sorted(changed))

    def remove_slice(self, name: str) -> tuple[str, ...]:
        """Remove a slice. Return the node whose devices changed, if any."""
        old = self._slices.pop(name, None)
        if old is None:
            return ()
        del self._slices_by_pool[_pool_id(old)][name]
        return self._refresh_pool(_pool_id(old))

    def devices(self, node: str) -> Mapping[DeviceID, Device]:
        """Return the devices of the node's complete pools, including devices without memory."""
        pools = self._complete_pools(node)
        if len(pools) == 1:
            return self._devices[pools[0]]
        return {key: device for pool in pools for key, device in self._devices[pool].items()}

    def has_complete_pool(self, node: str) -> bool:
        """Return whether the node has a complete pool. A node without one does not count."""
        return bool(self._complete_pools(node))

    def sizes(self, node: str) -> tuple[DeviceSize, ...]:
        """Return the sizes of the node's devices, ascending. Devices without memory do not count."""
        counts = Counter(
            device.memory_bytes for device in self.devices(node).values() if device.memory_bytes is not None
        )
        return tuple(DeviceSize(memory_bytes, counts[memory_bytes]) for memory_bytes in sorted(counts))

    def incomplete_pools(self) -> tuple[IncompletePool, ...]:
        """Return the pools that do not count now, sorted by node and name."""
        return tuple(self._incomplete[pool] for pool in sorted(self._incomplete))

    def _complete_pools(self, node: str) -> list[PoolID]:
        names = sorted(self._pools_by_node.get(node, ()))
        return [PoolID(node, name) for name in names if (node, name) in self._devices]

    def _refresh_pool(self, pool: PoolID) -> tuple[str, ...]:
        """Recompute a pool's devices. Return its node if they changed."""
        before = self._devices.pop(pool, None)
        self._incomplete.pop(pool, None)
        slices = self._slices_by_pool[pool]
        if slices:
            self._pools_by_node.setdefault(pool.node, set()).add(pool.pool)
            self._collect_devices(pool, slices)
        else:
            del self._slices_by_pool[pool]
            self._pools_by_node[pool.node].discard(pool.pool)
            if not self._pools_by_node[pool.node]:
                del self._pools_by_node[pool.node]
        return () if self._devices.get(pool) == before else (pool.node,)

    def _collect_devices(self, pool: PoolID, slices: Mapping[str, DeviceSlice]) -> None:
        newest = max(slice_.generation for slice_ in slices.values())
        # Sort by name, so that a device listed twice resolves the same way in any event order.
        current = [slices[name] for name in sorted(slices) if slices[name].generation == newest]
        expected = max(slice_.slice_count for slice_ in current)
        if any(slice_.slice_count != len(current) for slice_ in current):
            self._incomplete[pool] = IncompletePool(pool.node, pool.pool, newest, len(current), expected)
            return
        self._devices[pool] = {
            DeviceID(self._driver, pool.pool, device.name): device
            for slice_ in current
            for device in slice_.devices
        }


def _pool_id(slice_: DeviceSlice) -> PoolID:
    return PoolID(slice_.node, slice_.pool)
