"""Arithmetic on host resources: a node's free capacity, and the requests of Pods and seats.

The rules are those of kube-scheduler's `NodeResourcesFit`: a request of zero fits even on an overcommitted
node, and a node that reports no memory is not limited in memory.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from placement.types import Amounts, JoinCheck

_UNLIMITED: Final = 1 << 80
"""More than any sum of amounts."""


class HostResources(NamedTuple):
    """Bytes of memory, thousandths of a CPU, and Pods. Negative if a node is overcommitted."""

    memory_bytes: int
    cpu_millis: int
    pods: int

    def plus(self, other: HostResources) -> HostResources:
        """Return the sum per resource."""
        return HostResources(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def minus(self, other: HostResources) -> HostResources:
        """Return the difference per resource."""
        return HostResources(self[0] - other[0], self[1] - other[1], self[2] - other[2])

    def exceeds(self, other: HostResources) -> bool:
        """Return whether any resource is greater than in `other`."""
        return any(mine > theirs for mine, theirs in zip(self, other, strict=True))

    def shortage(self, least: HostResources) -> JoinCheck | None:
        """Return the check of the first resource below `least` (see `minimum_free`), None if all suffice."""
        if self[0] < least[0]:
            return JoinCheck.HOST_MEMORY
        if self[1] < least[1]:
            return JoinCheck.HOST_CPU
        return JoinCheck.HOST_PODS if self[2] < least[2] else None


ZERO: Final = HostResources(0, 0, 0)
NO_LOWER_BOUND: Final = HostResources(-_UNLIMITED, -_UNLIMITED, -_UNLIMITED)
NO_UPPER_BOUND: Final = HostResources(2 * _UNLIMITED, 2 * _UNLIMITED, 2 * _UNLIMITED)


def requested(amounts: Amounts) -> HostResources:
    """Return what a Pod or seat with these requests takes from its node."""
    return HostResources(amounts.memory_bytes or 0, amounts.cpu_millis, amounts.pods)


def allocatable(amounts: Amounts) -> HostResources:
    """Return the capacity of a node. Memory is unlimited if the node reports none."""
    memory_bytes = _UNLIMITED if amounts.memory_bytes is None else amounts.memory_bytes
    return HostResources(memory_bytes, amounts.cpu_millis, amounts.pods)


def minimum_free(amounts: Amounts) -> HostResources:
    """Return the least free capacity that admits these requests. A resource not requested has no bound."""
    memory_bytes, cpu_millis, pods = requested(amounts)
    return HostResources(memory_bytes or -_UNLIMITED, cpu_millis or -_UNLIMITED, pods or -_UNLIMITED)
