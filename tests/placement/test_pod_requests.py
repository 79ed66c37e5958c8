"""The effective request of a Pod, case by case as kube-scheduler computes it."""

from __future__ import annotations

import pytest

from placement.pod_requests import ContainerResources, PodResources, Resources, effective_request


def container(memory: int | None, *, limit: int | None = None, sidecar: bool = False) -> ContainerResources:
    return ContainerResources(
        requests=Resources(memory, None), limits=Resources(limit, None), restart_always=sidecar
    )


def init(memory: int) -> ContainerResources:
    return container(memory)


def sidecar(memory: int) -> ContainerResources:
    return container(memory, sidecar=True)


CASES: dict[str, tuple[PodResources, int]] = {
    "nothing": (PodResources((container(None),)), 0),
    "containers add up": (PodResources((container(3), container(4))), 7),
    "a limit replaces a missing request": (PodResources((container(None, limit=5),)), 5),
    "a request overrides its limit": (PodResources((container(2, limit=5),)), 2),
    "a request of zero is a request": (PodResources((container(0, limit=5),)), 0),
    "the largest init container can exceed the containers": (
        PodResources((container(3),), (init(5), init(9))),
        9,
    ),
    "small init containers do not count": (PodResources((container(7),), (init(5),)), 7),
    "sidecars keep running": (PodResources((container(3),), (sidecar(2), sidecar(1))), 6),
    "an init container runs beside the sidecars before it": (
        PodResources((container(1),), (sidecar(2), init(5), sidecar(1))),
        7,
    ),
    "an init container does not see later sidecars": (
        PodResources((container(1),), (init(5), sidecar(2))),
        5,
    ),
    "overhead is added": (PodResources((container(3),), overhead=Resources(2, None)), 5),
    "a Pod-level request replaces the containers' requests": (
        PodResources((container(3),), (init(9),), requests=Resources(4, None), overhead=Resources(2, None)),
        6,
    ),
    "a Pod-level limit replaces a missing Pod-level request": (
        PodResources((container(None),), limits=Resources(8, None)),
        8,
    ),
    "a Pod-level limit is ignored if a container has a request": (
        PodResources((container(3),), limits=Resources(8, None)),
        3,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_effective_memory(case: str) -> None:
    pod, expected = CASES[case]
    assert effective_request(pod).memory_bytes == expected


def test_cpu_follows_the_same_rules_independently() -> None:
    pod = PodResources(
        containers=(ContainerResources(Resources.parse({"cpu": "1500m", "memory": "1Gi"})),),
        init_containers=(ContainerResources(Resources.parse({"cpu": 2})),),
        requests=Resources.parse({"memory": "2Gi", "nvidia.com/gpu": "?"}),
    )
    request = effective_request(pod)
    assert (request.memory_bytes, request.cpu_millis, request.pods) == (2 << 30, 2000, 1)


def test_the_error_names_an_invalid_quantity() -> None:
    with pytest.raises(ValueError, match="'lots' is not a Kubernetes quantity"):
        Resources.parse({"memory": "lots"})


@pytest.mark.parametrize("quantities", [{"memory": "-5Gi"}, {"cpu": -1}])
def test_a_negative_amount_is_an_error(quantities: dict[str, str | float]) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Resources.parse(quantities)
