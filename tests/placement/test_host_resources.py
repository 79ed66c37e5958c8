"""A Pod's effective request, case by case as kube-scheduler computes it."""

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
    "a limit is the request where none is named": (PodResources((container(None, limit=5),)), 5),
    "a request beats its limit": (PodResources((container(2, limit=5),)), 2),
    "a request of zero is a request": (PodResources((container(0, limit=5),)), 0),
    "the largest init container counts alone": (PodResources((container(3),), (init(5), init(9))), 9),
    "small init containers do not count": (PodResources((container(7),), (init(5),)), 7),
    "sidecars run on": (PodResources((container(3),), (sidecar(2), sidecar(1))), 6),
    "an init container runs beside the sidecars before it": (
        PodResources((container(1),), (sidecar(2), init(5), sidecar(1))),
        7,
    ),
    "an init container does not see later sidecars": (
        PodResources((container(1),), (init(5), sidecar(2))),
        5,
    ),
    "overhead comes on top": (PodResources((container(3),), overhead=Resources(2, None)), 5),
    "the Pod's own request replaces its containers'": (
        PodResources((container(3),), (init(9),), requests=Resources(4, None), overhead=Resources(2, None)),
        6,
    ),
    "the Pod's limit is its request where nobody names one": (
        PodResources((container(None),), limits=Resources(8, None)),
        8,
    ),
    "the Pod's limit is none where a container names a request": (
        PodResources((container(3),), limits=Resources(8, None)),
        3,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_effective_memory(case: str) -> None:
    pod, expected = CASES[case]
    assert effective_request(pod).memory_bytes == expected


def test_cpu_follows_the_same_rules_on_its_own() -> None:
    pod = PodResources(
        containers=(ContainerResources(Resources.parse({"cpu": "1500m", "memory": "1Gi"})),),
        init_containers=(ContainerResources(Resources.parse({"cpu": 2})),),
        requests=Resources.parse({"memory": "2Gi", "nvidia.com/gpu": "?"}),
    )
    request = effective_request(pod)
    assert (request.memory_bytes, request.cpu_millis, request.pods) == (2 << 30, 2000, 1)


def test_a_bad_quantity_is_named() -> None:
    with pytest.raises(ValueError, match="'lots' is not a Kubernetes quantity"):
        Resources.parse({"memory": "lots"})


@pytest.mark.parametrize("quantities", [{"memory": "-5Gi"}, {"cpu": -1}])
def test_a_negative_amount_is_refused(quantities: dict[str, str | float]) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Resources.parse(quantities)
