"""The device shapes that exist, by role: what a claim may ask for and which nodes to prefer.

It says what exists, never what is free: a cordoned or full node keeps its shapes. Nodes with the same devices
and the same class share one profile, so that every answer costs the number of profiles, not of nodes.

Source: contract §3, "Catalog", "Tiers", "Node preferences".
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Final, NamedTuple

from placement.device_request import MAX_ALTERNATIVES
from placement.inventory import DeviceSize
from placement.node_class import NodeClass
from placement.quantity import gib_ceil
from placement.types import DeviceShape, PlacementRequest, PreferredNode, Role

MAX_PREFERRED_NODES: Final = 100
"""At most so many terms of preferred node affinity are written on a Pod."""


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """Nodes that are alike in class and devices. `sizes` is never empty."""

    node_class: NodeClass
    sizes: tuple[DeviceSize, ...]

    @property
    def device_count(self) -> int:
        """Devices with memory on one such node."""
        return sum(size.number for size in self.sizes)

    def shapes(self, memory_bytes: int) -> dict[int, int]:
        """How many devices of each shape (whole GiB, rounded up) hold so much memory."""
        counts: dict[int, int] = {}
        for size in self.sizes:
            if size.memory_bytes >= memory_bytes:
                gib = gib_ceil(size.memory_bytes)
                counts[gib] = counts.get(gib, 0) + size.number
        return counts

    def tiers(self, request: PlacementRequest) -> list[int]:
        """The shapes, in GiB ascending, of which one such node has as many devices as the request needs."""
        shapes = self.shapes(request.memory_bytes)
        return sorted(gib for gib, count in shapes.items() if count >= request.device_count)


class ShapeCatalogStatistics(NamedTuple):
    """Sizes of a `ShapeCatalog`, in objects."""

    nodes: int
    profiles: int
    devices: int
    """Devices with memory on these nodes."""


class ShapeCatalog:
    """The enabled nodes with devices, by profile.

    A node is in exactly one profile's list, or in none where it does not count; lists are sorted by name and
    never empty.
    """

    def __init__(self) -> None:
        self._profile_of: dict[str, NodeProfile] = {}
        self._nodes: dict[NodeProfile, list[str]] = {}

    def set_node(self, name: str, node_class: NodeClass | None, sizes: tuple[DeviceSize, ...]) -> None:
        """Take the node as it is now: without a class it is not enabled; without sizes it has no device."""
        profile = NodeProfile(node_class, sizes) if node_class is not None and sizes else None
        before = self._profile_of.get(name)
        if profile == before:
            return
        if before is not None:
            self._discard(name, before)
        if profile is not None:
            self._profile_of[name] = profile
            insort(self._nodes.setdefault(profile, []), name)

    def _discard(self, name: str, profile: NodeProfile) -> None:
        del self._profile_of[name]
        names = self._nodes[profile]
        del names[bisect_left(names, name)]
        if not names:
            del self._nodes[profile]

    def tiers(self, request: PlacementRequest) -> tuple[DeviceShape, ...]:
        """The shapes that hold the request, tightest first, in at most as many tiers as a claim can list.

        All tiers of a request have its device count, and a smaller shape always leaves less memory unused, so
        the contract's order (device count, unused memory, size) is the order of the shapes.
        """
        shapes = {gib for profile in self.accepting(request.role) for gib in profile.tiers(request)}
        tiers = [DeviceShape(request.device_count, gib) for gib in sorted(shapes)]
        if len(tiers) > MAX_ALTERNATIVES:
            rest = tiers[MAX_ALTERNATIVES - 1]
            tiers[MAX_ALTERNATIVES - 1 :] = [DeviceShape(rest.count, rest.gib, open_upwards=True)]
        return tuple(tiers)

    def preferred_nodes(self, request: PlacementRequest) -> tuple[PreferredNode, ...]:
        """The order of the tiers as weights on nodes, each by the tightest tier that it has.

        The last tier carries no weight. Beyond the bound the tightest stay, by name within a tier.
        """
        tiers = self.tiers(request)
        return tuple(islice(self._weighted(request, tiers), MAX_PREFERRED_NODES))

    def _weighted(self, request: PlacementRequest, tiers: tuple[DeviceShape, ...]) -> Iterator[PreferredNode]:
        tightest: dict[int, list[list[str]]] = {}
        for profile in self.accepting(request.role):
            shapes = profile.tiers(request)
            if shapes:
                tightest.setdefault(shapes[0], []).append(self._nodes[profile])
        for position, tier in enumerate(tiers[:-1]):
            weight = 100 - 100 * position // (len(tiers) - 1)
            for name in merge(*tightest.get(tier.gib, ())):
                yield PreferredNode(name, weight)

    def accepting(self, role: Role) -> Iterator[NodeProfile]:
        """The profiles of the nodes that accept the role."""
        return (profile for profile in self._nodes if profile.node_class.accepts(role))

    def __bool__(self) -> bool:
        """Whether any enabled node has a device."""
        return bool(self._nodes)

    def statistics(self) -> ShapeCatalogStatistics:
        """Sizes, for metrics and `repr`; costs the number of profiles."""
        devices = sum(len(names) * profile.device_count for profile, names in self._nodes.items())
        return ShapeCatalogStatistics(len(self._profile_of), len(self._nodes), devices)

    def __repr__(self) -> str:
        nodes, profiles, devices = self.statistics()
        return f"<Catalog: {nodes} nodes in {profiles} profiles, {devices} devices>"
