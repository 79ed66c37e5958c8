"""The device shapes that exist for each role: what a claim may request and which nodes to prefer.

The catalog holds what exists, not what is free: a cordoned or full node keeps its shapes. Nodes with the same
class and devices share a profile, so the cost of a query grows with the profiles, not with the nodes.

Source: contract §3, "Catalog", "Tiers", "Node preferences".
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Final

from placement.device_request import MAX_ALTERNATIVES
from placement.inventory import DeviceSize, devices_at_once
from placement.node_class import NodeClass
from placement.quantity import gib_ceil
from placement.types import DeviceShape, PlacementRequest, PreferredNode, Role

MAX_PREFERRED_NODES: Final = 100
"""Limit on the preferred node affinity terms of one Pod."""


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """The class and devices that a group of nodes shares. `sizes` is never empty."""

    node_class: NodeClass
    sizes: tuple[DeviceSize, ...]

    @property
    def device_count(self) -> int:
        """Number of devices that one such node can provide at once."""
        return devices_at_once(self.sizes)

    def counts_by_gib(self, request: PlacementRequest) -> dict[int, int]:
        """Return how many fitting devices can be allocated at once, by their size in GiB (rounded up)."""
        fitting: dict[int, list[DeviceSize]] = {}
        for size in self.sizes:
            if size.fits(request):
                fitting.setdefault(gib_ceil(size.memory_bytes), []).append(size)
        return {gib: devices_at_once(sizes) for gib, sizes in fitting.items()}

    def fitting_gib(self, request: PlacementRequest) -> list[int]:
        """Return the sizes, in GiB ascending, of which one node has enough devices for the request."""
        counts = self.counts_by_gib(request)
        return sorted(gib for gib, count in counts.items() if count >= request.device_count)


def open_shape(request: PlacementRequest) -> DeviceShape:
    """Return the shape of a claim for which no device exists yet: any that is large enough."""
    return DeviceShape(request.device_count, gib_ceil(request.memory_bytes), open_upwards=True)


class ShapeCatalog:
    """The enabled nodes with devices, by profile.

    A node in use is in exactly one profile's list, and any other node in none. The lists are sorted by name
    and never empty.
    """

    def __init__(self) -> None:
        self._profile_by_node: dict[str, NodeProfile] = {}
        self._nodes: dict[NodeProfile, list[str]] = {}

    def set_node(self, name: str, node_class: NodeClass | None, sizes: tuple[DeviceSize, ...]) -> None:
        """Store a node. A node without a class (not enabled) or without sizes (no devices) is not in use."""
        profile = NodeProfile(node_class, sizes) if node_class is not None and sizes else None
        before = self._profile_by_node.get(name)
        if profile == before:
            return
        if before is not None:
            del self._profile_by_node[name]
            names = self._nodes[before]
            del names[bisect_left(names, name)]
            if not names:
                del self._nodes[before]
        if profile is not None:
            self._profile_by_node[name] = profile
            insort(self._nodes.setdefault(profile, []), name)

    def shapes(self, request: PlacementRequest) -> tuple[DeviceShape, ...]:
        """Return the shapes that fit the request, tightest first, at most as many as a claim can list.

        All shapes of a request have its device count, and a smaller size always leaves less memory unused. So
        the order by size equals the contract's order (device count, unused memory, size).
        """
        sizes = {gib for profile in self.accepting(request.role) for gib in profile.fitting_gib(request)}
        shapes = [DeviceShape(request.device_count, gib) for gib in sorted(sizes)]
        if len(shapes) > MAX_ALTERNATIVES:
            last = shapes[MAX_ALTERNATIVES - 1]
            shapes[MAX_ALTERNATIVES - 1 :] = [DeviceShape(last.count, last.gib, open_upwards=True)]
        return tuple(shapes)

    def preferred_nodes(self, request: PlacementRequest) -> tuple[PreferredNode, ...]:
        """Return the order of the shapes as node weights. A node counts by its tightest shape.

        The last shape has no weight. Above the limit, the tightest shapes remain, by name within a shape.
        """
        return tuple(islice(self._weighted(request), MAX_PREFERRED_NODES))

    def _weighted(self, request: PlacementRequest) -> Iterator[PreferredNode]:
        names_by_gib: dict[int, list[list[str]]] = {}
        for profile in self.accepting(request.role):
            sizes = profile.fitting_gib(request)
            if sizes:
                names_by_gib.setdefault(sizes[0], []).append(self._nodes[profile])
        shapes = self.shapes(request)
        for position, shape in enumerate(shapes[:-1]):
            weight = 100 - 100 * position // (len(shapes) - 1)
            for name in merge(*names_by_gib.get(shape.gib, ())):
                yield PreferredNode(name, weight)

    def fitting_nodes(self, request: PlacementRequest, limit: int) -> Iterator[str]:
        """Return nodes that accept the worker and have enough devices, at most `limit` of each profile."""
        for profile in self.accepting(request.role):
            if profile.node_class.check(request) is None and profile.fitting_gib(request):
                yield from islice(self._nodes[profile], limit)

    def accepting(self, role: Role) -> Iterator[NodeProfile]:
        """Return the profiles of the nodes that accept the role (contract §2.4)."""
        return (profile for profile in self._nodes if role in profile.node_class.roles)

    def __bool__(self) -> bool:
        """Return whether any enabled node has a device."""
        return bool(self._nodes)

    @property
    def node_count(self) -> int:
        """Number of enabled nodes with devices."""
        return len(self._profile_by_node)

    @property
    def device_count(self) -> int:
        """Number of devices with memory on these nodes. The cost grows with the number of profiles."""
        return sum(len(names) * profile.device_count for profile, names in self._nodes.items())
