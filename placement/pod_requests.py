"""The effective host request of a Pod, by kube-scheduler's arithmetic.

A Workload's template has not passed the API server's defaulting yet, so its defaults apply here: a
container's limit replaces a missing request, and Pod-level limits replace missing Pod-level requests. Only
memory and CPU count. During an in-place resize the larger of the old and the new request counts.

Sources: `PodRequests` of `k8s.io/component-helpers/resource`, KEP-753 (restartable init containers), KEP-2837
(Pod-level resources), KEP-1287 (in-place resize) and `SetDefaults_Pod` of the core API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from placement.quantity import parse_bytes, parse_millis
from placement.types import Amounts


@dataclass(frozen=True, slots=True)
class Resources:
    """Memory and CPU of one list of requests, limits or overhead. None: not in the list."""

    memory_bytes: int | None = None
    cpu_millis: int | None = None

    @classmethod
    def parse(cls, quantities: Mapping[str, str | float]) -> Resources:
        """Parse a `ResourceList`, ignoring other resources.

        Raises:
            ValueError: memory or CPU is not a quantity, or is negative.
        """
        memory, cpu = quantities.get("memory"), quantities.get("cpu")
        return cls(
            memory_bytes=None if memory is None else _not_negative("memory", memory, parse_bytes(memory)),
            cpu_millis=None if cpu is None else _not_negative("cpu", cpu, parse_millis(cpu)),
        )


def _not_negative(name: str, text: str | float, amount: int) -> int:
    if amount < 0:
        raise ValueError(f"{name}: {text!r} must not be negative")
    return amount


NO_RESOURCES: Final = Resources()


def during_resize(
    requests: Resources, actual: Resources, allocated: Resources, *, infeasible: bool
) -> Resources:
    """Return the requests that count if the status reports resources: the largest of each resource.

    `requests` are those of the spec, `allocated` what the kubelet has accepted, `actual` what is configured.
    A resize that the kubelet rejects as infeasible never happens, so the spec does not count.
    """
    counted = (actual, allocated) if infeasible else (requests, actual, allocated)
    return Resources(
        memory_bytes=max((r.memory_bytes for r in counted if r.memory_bytes is not None), default=None),
        cpu_millis=max((r.cpu_millis for r in counted if r.cpu_millis is not None), default=None),
    )


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """The resources of one container. `restart_always` makes an init container a sidecar (KEP-753)."""

    requests: Resources = NO_RESOURCES
    limits: Resources = NO_RESOURCES
    restart_always: bool = False


@dataclass(frozen=True, slots=True)
class PodResources:
    """Everything that determines a Pod's effective request. Init containers are in their start order."""

    containers: tuple[ContainerResources, ...]
    init_containers: tuple[ContainerResources, ...] = ()
    overhead: Resources = NO_RESOURCES
    requests: Resources = NO_RESOURCES
    """Pod-level requests."""
    limits: Resources = NO_RESOURCES
    """Pod-level limits."""


def effective_request(pod: PodResources) -> Amounts:
    """Return what the Pod takes from its node: memory, CPU and one Pod slot."""
    return Amounts(
        memory_bytes=_effective(pod, lambda resources: resources.memory_bytes),
        cpu_millis=_effective(pod, lambda resources: resources.cpu_millis),
        pods=1,
    )


_Amount = Callable[[Resources], int | None]


def _effective(pod: PodResources, amount: _Amount) -> int:
    total = _own_request(pod, amount) or 0
    containers = (*pod.containers, *pod.init_containers)
    if amount(pod.requests) is None and any(_own_request(item, amount) is not None for item in containers):
        # Pod-level limits replace requests only if no container has a request.
        total = _container_total(pod, amount)
    return total + (amount(pod.overhead) or 0)


def _container_total(pod: PodResources, amount: _Amount) -> int:
    """Return the larger of the running containers' sum and the peak during initialization."""
    sidecars = peak = 0
    for container in pod.init_containers:
        request = _own_request(container, amount) or 0
        peak = max(peak, sidecars + request)
        if container.restart_always:
            sidecars += request
    running = sum(_own_request(container, amount) or 0 for container in pod.containers)
    return max(running + sidecars, peak)


def _own_request(item: ContainerResources | PodResources, amount: _Amount) -> int | None:
    request = amount(item.requests)
    return amount(item.limits) if request is None else request
