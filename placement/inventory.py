"""What drivers publish: from single ResourceSlices to the devices of a node.

Slices arrive one by one and in any order, and a driver that changes its pool publishes a new generation slice
by slice. A pool therefore counts only by its highest generation, and only while all slices of that are there;
half a pool would hide devices that exist. Whether a node takes part in placement is not known here.

Source: contract §2.4; `ResourcePool` of `resource.k8s.io/v1`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from placement.types import Device, DeviceID, DeviceSlice


class PoolID(NamedTuple):
    """Pools are node-local here: the same name on two nodes means two pools."""

    node: str
    pool: str


class IncompletePool(NamedTuple):
    """A pool that is left out, and what is missing from it."""

    node: str
    pool: str
    generation: int
    slices_present: int
    slices_expected: int


class DeviceSize(NamedTuple):
    """How many devices of one size a node has."""

    memory_bytes: int
    number: int


class InventoryStatistics(NamedTuple):
    """Sizes of an `Inventory`, in objects."""

    slices: int
    pools: int
    incomplete_pools: int


class Inventory:
    """The pools of one driver by node.

    `_devices[pool]` exists exactly while the pool is complete, and then holds every device of its highest
    generation.
    """

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._slices: dict[str, DeviceSlice] = {}
        self._members: dict[PoolID, dict[str, DeviceSlice]] = {}
        self._devices: dict[PoolID, dict[DeviceID, Device]] = {}
        self._gaps: dict[PoolID, IncompletePool] = {}
        self._pools_of: dict[str, set[str]] = {}

    def set_slice(self, slice_: DeviceSlice) -> tuple[str, ...]:
        """Take a slice as published; the nodes whose devices changed by it, at most two."""
        if slice_.driver != self._driver or not slice_.node:
            # It may have been ours under this name before.
            return self.remove_slice(slice_.name)
        old = self._slices.get(slice_.name)
        if old == slice_:
            return ()
        changed: set[str] = set()
        if old is not None and _pool_id(old) != _pool_id(slice_):
            changed.update(self.remove_slice(slice_.name))
        self._slices[slice_.name] = slice_
        self._members.setdefault(_pool_id(slice_), {})[slice_.name] = slice_
        changed.update(self._settle(_pool_id(slice_)))
        return tuple(sorted(changed))

    def remove_slice(self, name: str) -> tuple[str, ...]:
        """Forget a slice; the node whose devices changed by it, if any."""
        old = self._slices.pop(name, None)
        if old is None:
            return ()
        del self._members[_pool_id(old)][name]
        return self._settle(_pool_id(old))

    def devices(self, node: str) -> Mapping[DeviceID, Device]:
        """The devices of the node's complete pools, those without memory too."""
        pools = self._complete_pools(node)
        if len(pools) == 1:
            return self._devices[pools[0]]
        return {key: device for pool in pools for key, device in self._devices[pool].items()}

    def has_complete_pool(self, node: str) -> bool:
        """Whether a complete pool describes the node: without one it does not count."""
        return bool(self._complete_pools(node))

    def sizes(self, node: str) -> tuple[DeviceSize, ...]:
        """The sizes of the node's devices, ascending. A device without memory does not count."""
        sizes = Counter(
            device.memory_bytes for device in self.devices(node).values() if device.memory_bytes is not None
        )
        return tuple(DeviceSize(memory_bytes, sizes[memory_bytes]) for memory_bytes in sorted(sizes))

    def incomplete_pools(self) -> tuple[IncompletePool, ...]:
        """The pools that are left out now, in the order of their names, for the caller to report."""
        return tuple(self._gaps[pool] for pool in sorted(self._gaps))

    def _complete_pools(self, node: str) -> list[PoolID]:
        names = sorted(self._pools_of.get(node, ()))
        return [PoolID(node, name) for name in names if (node, name) in self._devices]

    def _settle(self, pool: PoolID) -> tuple[str, ...]:
        """Decide again whether the pool is complete and what is in it."""
        before = self._devices.pop(pool, None)
        self._gaps.pop(pool, None)
        members = self._members[pool]
        if members:
            self._pools_of.setdefault(pool.node, set()).add(pool.pool)
            self._judge(pool, members)
        else:
            self._forget(pool)
        return () if self._devices.get(pool) == before else (pool.node,)

    def _judge(self, pool: PoolID, members: Mapping[str, DeviceSlice]) -> None:
        newest = max(slice_.generation for slice_ in members.values())
        # By name, so that a device listed twice resolves the same way whatever came first.
        current = [members[name] for name in sorted(members) if members[name].generation == newest]
        expected = max(slice_.slice_count for slice_ in current)
        if any(slice_.slice_count != len(current) for slice_ in current):
            self._gaps[pool] = IncompletePool(pool.node, pool.pool, newest, len(current), expected)
            return
        self._devices[pool] = {
            DeviceID(self._driver, pool.pool, device.name): device
            for slice_ in current
            for device in slice_.devices
        }

    def _forget(self, pool: PoolID) -> None:
        del self._members[pool]
        names = self._pools_of[pool.node]
        names.discard(pool.pool)
        if not names:
            del self._pools_of[pool.node]

    def statistics(self) -> InventoryStatistics:
        """Sizes, for metrics and `repr`."""
        return InventoryStatistics(len(self._slices), len(self._devices), len(self._gaps))

    def __repr__(self) -> str:
        slices, pools, gaps = self.statistics()
        return f"<Inventory {self._driver}: {slices} slices, {pools} complete pools, {gaps} incomplete>"


def _pool_id(slice_: DeviceSlice) -> PoolID:
    return PoolID(slice_.node, slice_.pool)
