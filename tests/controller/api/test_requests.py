"""Tests of placement requests and the validation of a Workload's spec."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.api.core import Pod
from controller.api.reasons import ReasonCode
from controller.api.requests import InvalidWorkloadError, PlacementRequests
from controller.api.workload import Workload
from placement.types import GIB, Amounts, PlacementRequest, Role, TaintEffect, Toleration
from tests.controller.build import container, pod, template, workload


def validated(workload_: Workload, max_seats_per_claim: int = 0) -> PlacementRequest:
    return PlacementRequests(max_seats_per_claim, "gpu.example.com").validate(workload_)


MULTI = {"mode": "MultiGPU", "memory": "1Gi"}

INVALID = {
    "an unknown role": ({"role": "driver"}, "role: 'driver' is not one of trainer, sampler"),
    "no role": ({"role": ""}, "role: ''"),
    "no memory": ({"accelerator": {}}, "accelerator.memory: None is not a quantity"),
    "zero memory": ({"accelerator": {"memory": "0"}}, "accelerator.memory: '0' must be more than 0"),
    "negative memory": ({"accelerator": {"memory": "-1Gi"}}, "accelerator.memory: '-1Gi' must be more"),
    "memory without a unit": (
        {"accelerator": {"memory": 60}},
        "accelerator.memory: 60: below 1Mi; write a unit, e.g. 60Gi",
    ),
    "memory of a byte less than 1Mi": (
        {"accelerator": {"memory": "1048575"}},
        "accelerator.memory: 1048575: below 1Mi; write a unit",
    ),
    "memory in milli": ({"accelerator": {"memory": "60000m"}}, "accelerator.memory: 60000m: below 1Mi"),
    "memory without a number": (
        {"accelerator": {"memory": "much"}},
        "accelerator.memory: 'much' is not",
    ),
    "memory that is true": ({"accelerator": {"memory": True}}, "accelerator.memory: True is not"),
    "memory that is a list": ({"accelerator": {"memory": ["1Gi"]}}, "accelerator.memory: ['1Gi'] is not"),
    "unknown mode": (
        {"accelerator": {"memory": "1Gi", "mode": "Some"}},
        "accelerator.mode: 'Some' is not one",
    ),
    "devices with SingleGPU": (
        {"accelerator": {"memory": "1Gi", "devices": 2}},
        "accelerator.devices: 2 is for mode MultiGPU only",
    ),
    "MultiGPU without devices": ({"accelerator": MULTI}, "accelerator.devices: None must be a whole number"),
    "MultiGPU with one device": ({"accelerator": MULTI | {"devices": 1}}, "accelerator.devices: 1 must be"),
    "a boolean number of devices": (
        {"accelerator": MULTI | {"devices": True}},
        "accelerator.devices: True must be",
    ),
    "devices as text": (
        {"accelerator": MULTI | {"devices": "2"}},
        "accelerator.devices: '2' must be",
    ),
    "a type without a device class": (
        {"accelerator": {"memory": "1Gi", "type": "TPU"}},
        "accelerator.type: 'TPU' has no device class here; allowed: GPU",
    ),
}


@pytest.mark.parametrize(("spec", "sentence"), INVALID.values(), ids=INVALID)
def test_an_invalid_spec_names_the_field_the_value_and_the_allowed_values(
    spec: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidWorkloadError) as caught:
        validated(workload(**spec))
    assert caught.value.code is ReasonCode.INVALID_SPEC
    assert caught.value.detail.startswith(sentence)


def test_an_invalid_template_has_its_own_code() -> None:
    for broken in (
        template(nodeName="n"),
        template(container(memory="much")),
        template(tolerations=7),
        template(overhead={"cpu": "x"}),
    ):
        with pytest.raises(InvalidWorkloadError) as caught:
            validated(workload(template=broken))
        assert caught.value.code is ReasonCode.INVALID_TEMPLATE


def test_a_complete_request() -> None:
    toleration = {"key": "dedicated", "value": "rl", "effect": "NoSchedule"}
    full = workload(
        "a",
        role="sampler",
        ownerID="Team A",
        accelerator={"memory": "1.5Gi"},
        template=template(
            container(memory="2Gi", cpu="1500m"),
            container("side", memory="1Gi", cpu=1),
            tolerations=[toleration, {"operator": "Exists"}],
            overhead={"memory": "1Mi"},
        ),
    )
    request = validated(full, 3)
    assert (request.worker, request.worker_uid, request.owner_key) == ("a", "uid-a", "Team A")
    assert (request.role, request.memory_bytes, request.devices) == (Role.SAMPLER, 3 * GIB // 2, 0)
    assert request.host == Amounts(3 * GIB + (1 << 20), 2500)
    assert request.tolerations == (
        Toleration("dedicated", exists=False, value="rl", effect=TaintEffect.NO_SCHEDULE),
        Toleration("", exists=True, value="", effect=None),
    )
    assert (request.seat_limit, request.seat_limit_is_set) == (3, True)
    assert request.shareable


def test_a_worker_without_an_owner_is_its_own_owner() -> None:
    assert validated(workload("a")).owner_key == "a"
    assert validated(workload("a", ownerID="")).owner_key == "a"


def test_memory_may_be_a_number() -> None:
    assert validated(workload(accelerator={"memory": 1048576})).memory_bytes == 1048576
    assert validated(workload(accelerator={"memory": 1.5e9})).memory_bytes == 1_500_000_000


def test_a_multi_gpu_worker_is_not_shareable() -> None:
    request = validated(workload(exclusive=False, accelerator=MULTI | {"devices": 4}))
    assert (request.devices, request.device_count, request.shareable) == (4, 4, False)


def test_without_a_limit_the_maximum_of_dra_applies() -> None:
    assert PlacementRequests(0, "gpu.example.com").seat_limit == 256
    assert PlacementRequests(2, "gpu.example.com").seat_limit == 2
    unlimited, limited = validated(workload()), validated(workload(), 256)
    assert (unlimited.seat_limit, unlimited.seat_limit_is_set) == (256, False)
    assert (limited.seat_limit, limited.seat_limit_is_set) == (256, True)


def test_a_placed_worker_is_not_validated_again() -> None:
    """A stricter rule must not fail a placed worker. Only the fields that placement needs are required."""
    requests = PlacementRequests(2, "gpu.example.com")
    stricter = workload(template=template(nodeName="n"), accelerator={"memory": "1Gi", "type": "TPU"})
    request = requests.of(stricter)
    assert request is not None
    assert request.seat_limit == 2
    with pytest.raises(InvalidWorkloadError):
        requests.validate(stricter)


def test_an_invalid_spec_has_no_request() -> None:
    assert PlacementRequests(0, "gpu.example.com").of(workload(role="driver")) is None
    assert PlacementRequests(0, "gpu.example.com").of(workload(template={"spec": ["x"]})) is None


def test_a_seat_request_of_an_invalid_spec_is_exclusive_with_the_memory_of_the_pod() -> None:
    requests, invalid = (
        PlacementRequests(3, "gpu.example.com"),
        workload("a", role="driver", exclusive=False, ownerID="b"),
    )
    seat = requests.seat_request(invalid, recorded="assignment-1", pod=pod("a"))
    assert (seat.exclusive, seat.owner_id, seat.seat_limit) == (True, "b", 3)
    assert (seat.host_request, seat.recorded_assignment_id) == ("1Gi", "assignment-1")
    assert requests.seat_request(invalid).host_request == "0"


def test_a_seat_request_agrees_with_the_placement_request() -> None:
    requests, sharing = PlacementRequests(0, "gpu.example.com"), workload("a", exclusive=False)
    request, seat = requests.of(sharing), requests.seat_request(sharing, claim_owner_uid="uid-l")
    assert request is not None
    assert (seat.exclusive, seat.owner_id, seat.seat_limit) == (False, request.owner_key, request.seat_limit)
    assert seat.claim_owner_uid == "uid-l"


def test_a_request_is_built_once_per_workload() -> None:
    requests = PlacementRequests(0, "gpu.example.com")
    first, namesake = workload("a"), workload("a", meta={"uid": "another"}, ownerID="b")
    assert requests.of(first) is requests.of(first)
    built = requests.of(namesake)
    assert built is not None
    assert built.owner_key == "b"
    requests.forget(first)
    assert list(requests._templates) == [namesake.uid]


def shown(name: str, gib: int, minute: int = 0, **spec: Any) -> Pod:
    """Return the Pod of a worker as admission made it."""
    made = pod(name, containers=[container("worker", f"{gib}Gi")], **spec)
    metadata = msgspec.structs.replace(made.metadata, creation_timestamp=f"2030-01-01T00:{minute:02}:00Z")
    return msgspec.structs.replace(made, metadata=metadata)


def host_gib(requests: PlacementRequests, worker: Workload) -> float:
    built = requests.of(worker)
    assert built is not None
    return (built.host.memory_bytes or 0) / GIB


def test_a_worker_counts_with_its_own_pod_then_with_the_newest_of_its_class() -> None:
    requests = PlacementRequests(0, "gpu.example.com")
    first, second, third = workload("a"), workload("b"), workload("c")
    other = workload("d", accelerator={"memory": "1Gi"})
    template_gib = host_gib(requests, third)
    assert requests.learn(first, shown("a", 10, minute=2))
    assert [host_gib(requests, w) for w in (first, second, third)] == [10, 10, 10]
    assert host_gib(requests, other) == template_gib
    assert requests.learn(second, shown("b", 20, minute=1))
    assert [host_gib(requests, w) for w in (first, second, third)] == [10, 20, 10]
    requests.forget(first)
    assert host_gib(requests, third) == 10


def test_a_pod_that_is_as_its_template_changes_no_request() -> None:
    requests = PlacementRequests(0, "gpu.example.com")
    worker = workload("a")
    before = requests.of(worker)
    made = shown("a", 1)
    spec = worker.spec.template["spec"]
    made = msgspec.structs.replace(made, spec=msgspec.convert(spec, type(made.spec)))
    assert not requests.learn(worker, made)
    assert requests.of(worker) == before


def test_workers_of_one_class_have_equal_requests() -> None:
    requests = PlacementRequests(0, "gpu.example.com")
    first, second = workload("a"), workload("b")
    assert requests.equivalence_class(first) == requests.equivalence_class(second)
    requests.learn(first, shown("a", 10))
    assert requests.equivalence_class(first) != requests.equivalence_class(second)
    requests.learn(second, shown("b", 10))
    assert requests.equivalence_class(first) == requests.equivalence_class(second)
    assert requests.equivalence_class(workload("c", accelerator={"memory": "junk"})) is None
