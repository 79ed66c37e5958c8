"""A Pod's effective request on its host, by kube-scheduler's arithmetic.

The API server's defaults are part of it, because a template is no Pod yet: a container's limit is its request
where it names none, and Pod-level limits fill in Pod-level requests. Only memory and CPU are looked at.
In-place resizes in progress are not: the request in the spec counts.

Sources: `PodRequests` of `k8s.io/component-helpers/resource`, KEP-753 (restartable init containers), KEP-2837
(Pod-level resources) and `SetDefaults_Pod` of the core API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from placement.quantity import parse_bytes, parse_millis
from placement.types import Amounts


@dataclass(frozen=True, slots=True)
class Resources:
    """Memory and CPU of one list of requests, limits or overhead. None: not named there."""

    memory_bytes: int | None = None
    cpu_millis: int | None = None

    @classmethod
    def parse(cls, quantities: Mapping[str, str | float]) -> Resources:
        """From a `ResourceList`; other resources are ignored.

        Raises:
            ValueError: memory or CPU is not a quantity, or negative.
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


UNNAMED: Final = Resources()


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """What one container asks for. `restart_always` makes an init container a sidecar (KEP-753)."""

    requests: Resources = UNNAMED
    limits: Resources = UNNAMED
    restart_always: bool = False


@dataclass(frozen=True, slots=True)
class PodResources:
    """All that decides on a Pod's effective request. Init containers are in their order."""

    containers: tuple[ContainerResources, ...]
    init_containers: tuple[ContainerResources, ...] = ()
    overhead: Resources = UNNAMED
    requests: Resources = UNNAMED
    """The Pod-level requests."""
    limits: Resources = UNNAMED
    """The Pod-level limits."""


def effective_request(pod: PodResources) -> Amounts:
    """What the Pod takes of its node: bytes, thousandths of a CPU, one Pod slot."""
    return Amounts(
        memory_bytes=_effective(pod, lambda resources: resources.memory_bytes),
        cpu_millis=_effective(pod, lambda resources: resources.cpu_millis),
        pods=1,
    )


_Amount = Callable[[Resources], int | None]


def _effective(pod: PodResources, amount: _Amount) -> int:
    own = _own_request(pod.requests, pod.limits, amount)
    if amount(pod.requests) is None and _any_named((*pod.containers, *pod.init_containers), amount):
        # Pod-level limits stand in for requests only where no container names a request.
        own = None
    aggregate = _aggregate(pod, amount) if own is None else own
    return aggregate + (amount(pod.overhead) or 0)


def _aggregate(pod: PodResources, amount: _Amount) -> int:
    """The containers together: running, or at the most demanding step of their start if that is more."""
    sidecars = most_demanding = 0
    for container in pod.init_containers:
        request = _own_request(container.requests, container.limits, amount) or 0
        if container.restart_always:
            sidecars += request
            most_demanding = max(most_demanding, sidecars)
        else:
            most_demanding = max(most_demanding, sidecars + request)
    running = sum(_own_request(item.requests, item.limits, amount) or 0 for item in pod.containers)
    return max(running + sidecars, most_demanding)


def _own_request(requests: Resources, limits: Resources, amount: _Amount) -> int | None:
    request = amount(requests)
    return amount(limits) if request is None else request


def _any_named(containers: Iterable[ContainerResources], amount: _Amount) -> bool:
    return any(_own_request(item.requests, item.limits, amount) is not None for item in containers)
