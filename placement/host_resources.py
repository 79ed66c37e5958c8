"""Host resources as one additive vector: what a node has left, what Pods and seats take.

Sums, differences and comparisons live here, so that one rule holds everywhere: a request of zero fits even
where more than everything is taken, and a node that reports no memory has no bound on it. That is how
kube-scheduler's `NodeResourcesFit` decides.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from placement.types import Amounts, JoinCheck

UNBOUNDED: Final = 1 << 80
"""More than any sum of amounts: the bound of what is not limited."""


class HostResources(NamedTuple):
    """Memory in bytes, CPU in thousandths, Pods in number. May be negative: a node can be overcommitted."""

    memory_bytes: int
    cpu_millis: int
    pods: int

    def plus(self, other: HostResources) -> HostResources:
        """The sum, by component."""
        return HostResources(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def minus(self, other: HostResources) -> HostResources:
        """The difference, by component."""
        return HostResources(self[0] - other[0], self[1] - other[1], self[2] - other[2])

    def shortage(self, least: HostResources) -> JoinCheck | None:
        """The first resource of which there is less than `least` (see `needed`), None where all suffice."""
        if self[0] < least[0]:
            return JoinCheck.HOST_MEMORY
        if self[1] < least[1]:
            return JoinCheck.HOST_CPU
        return JoinCheck.HOST_PODS if self[2] < least[2] else None


NO_ROOM: Final = HostResources(0, 0, 0)
ANY_ROOM: Final = HostResources(-UNBOUNDED, -UNBOUNDED, -UNBOUNDED)
ENDLESS_ROOM: Final = HostResources(2 * UNBOUNDED, 2 * UNBOUNDED, 2 * UNBOUNDED)


def taken(amounts: Amounts) -> HostResources:
    """What a Pod or seat with these requests takes from its node."""
    return HostResources(amounts.memory_bytes or 0, amounts.cpu_millis, amounts.pods)


def allocatable(amounts: Amounts) -> HostResources:
    """What a node gives: without a bound on memory where it reports none."""
    memory_bytes = UNBOUNDED if amounts.memory_bytes is None else amounts.memory_bytes
    return HostResources(memory_bytes, amounts.cpu_millis, amounts.pods)


def needed(amounts: Amounts) -> HostResources:
    """The least room that admits these requests: no bound for what is not asked for."""
    memory_bytes, cpu_millis, pods = taken(amounts)
    return HostResources(memory_bytes or -UNBOUNDED, cpu_millis or -UNBOUNDED, pods or -UNBOUNDED)
