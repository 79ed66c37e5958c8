"""What a worker asks for, read from its spec in one place; what cannot be read fails it by one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.reasons import ReasonCode
from controller.api.requests import InvalidWorkloadError, PlacementRequests
from controller.api.workload import Workload
from placement.types import GIB, Amounts, PlacementRequest, Role, TaintEffect, Toleration
from tests.controller.build import container, template, workload


def validated(asked: Workload, max_seats_per_claim: int = 0) -> PlacementRequest:
    return PlacementRequests(max_seats_per_claim).validate(asked)


MULTI = {"mode": "MultiGPU", "memory": "1Gi"}

INVALID = {
    "no such role": ({"role": "driver"}, "role: 'driver' is not one of trainer, sampler"),
    "no role": ({"role": ""}, "role: ''"),
    "no memory": ({"accelerator": {}}, "accelerator.memory: None is not a quantity"),
    "memory of nothing": ({"accelerator": {"memory": "0"}}, "accelerator.memory: '0' must be more than 0"),
    "negative memory": ({"accelerator": {"memory": "-1Gi"}}, "accelerator.memory: '-1Gi' must be more"),
    "memory that is no quantity": ({"accelerator": {"memory": "much"}}, "accelerator.memory: 'much' is not"),
    "memory that is true": ({"accelerator": {"memory": True}}, "accelerator.memory: True is not"),
    "memory that is a list": ({"accelerator": {"memory": ["1Gi"]}}, "accelerator.memory: ['1Gi'] is not"),
    "no such mode": ({"accelerator": {"memory": 1, "mode": "Some"}}, "accelerator.mode: 'Some' is not one"),
    "devices of a single one": (
        {"accelerator": {"memory": 1, "devices": 2}},
        "accelerator.devices: 2 is for mode MultiGPU only",
    ),
    "several, but how many": ({"accelerator": MULTI}, "accelerator.devices: None must be a whole number"),
    "several that are one": ({"accelerator": MULTI | {"devices": 1}}, "accelerator.devices: 1 must be"),
    "several that are true": (
        {"accelerator": MULTI | {"devices": True}},
        "accelerator.devices: True must be",
    ),
    "several that are text": ({"accelerator": MULTI | {"devices": "2"}}, "accelerator.devices: '2' must be"),
    "a type without a class": (
        {"accelerator": {"memory": 1, "type": "TPU"}},
        "accelerator.type: 'TPU' has no device class here; allowed: GPU",
    ),
}


@pytest.mark.parametrize(("spec", "sentence"), INVALID.values(), ids=INVALID)
def test_an_invalid_spec_is_told_by_the_field_the_value_and_what_is_allowed(
    spec: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidWorkloadError) as caught:
        validated(workload(**spec))
    assert caught.value.code is ReasonCode.INVALID_SPEC
    assert caught.value.detail.startswith(sentence)


def test_an_invalid_template_has_a_code_of_its_own() -> None:
    for broken in (
        template(nodeName="n"),
        template(container(memory="much")),
        template(tolerations=7),
        template(overhead={"cpu": "x"}),
    ):
        with pytest.raises(InvalidWorkloadError) as caught:
            validated(workload(template=broken))
        assert caught.value.code is ReasonCode.INVALID_TEMPLATE


def test_everything_that_is_asked_for() -> None:
    toleration = {"key": "dedicated", "value": "rl", "effect": "NoSchedule"}
    asked = workload(
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
    request = validated(asked, 3)
    assert (request.worker, request.worker_uid, request.owner_key) == ("a", "uid-a", "Team A")
    assert (request.role, request.memory_bytes, request.devices) == (Role.SAMPLER, 3 * GIB // 2, 0)
    assert request.host == Amounts(3 * GIB + (1 << 20), 2500)
    assert request.tolerations == (
        Toleration("dedicated", exists=False, value="rl", effect=TaintEffect.NO_SCHEDULE),
        Toleration("", exists=True, value="", effect=None),
    )
    assert (request.seat_limit, request.seat_limit_is_set) == (3, True)
    assert request.shareable


def test_a_worker_without_an_owner_is_its_own() -> None:
    assert validated(workload("a")).owner_key == "a"
    assert validated(workload("a", ownerID="")).owner_key == "a"


def test_memory_may_be_a_number() -> None:
    assert validated(workload(accelerator={"memory": 1024})).memory_bytes == 1024
    assert validated(workload(accelerator={"memory": 1.5e9})).memory_bytes == 1_500_000_000


def test_a_worker_on_several_devices_never_shares() -> None:
    request = validated(workload(exclusive=False, accelerator=MULTI | {"devices": 4}))
    assert (request.devices, request.device_count, request.shareable) == (4, 4, False)


def test_no_limit_is_the_ceiling_of_dra_for_everybody_who_asks() -> None:
    assert PlacementRequests(0).seat_limit == 256
    assert PlacementRequests(2).seat_limit == 2
    unlimited, limited = validated(workload()), validated(workload(), 256)
    assert (unlimited.seat_limit, unlimited.seat_limit_is_set) == (256, False)
    assert (limited.seat_limit, limited.seat_limit_is_set) == (256, True)


def test_a_placed_worker_is_read_leniently() -> None:
    """A stricter rule fails none that holds something: only what placement needs has to be there."""
    requests = PlacementRequests(2)
    stricter = workload(template=template(nodeName="n"), accelerator={"memory": "1Gi", "type": "TPU"})
    request = requests.of(stricter)
    assert request is not None
    assert request.seat_limit == 2
    with pytest.raises(InvalidWorkloadError):
        requests.validate(stricter)


def test_what_cannot_be_read_asks_for_nothing() -> None:
    assert PlacementRequests(0).of(workload(role="driver")) is None


def test_a_request_is_built_once_for_each_workload() -> None:
    requests = PlacementRequests(0)
    first, namesake = workload("a"), workload("a", meta={"uid": "another"}, ownerID="b")
    assert requests.of(first) is requests.of(first)
    built = requests.of(namesake)
    assert built is not None
    assert built.owner_key == "b"
    requests.forget(first)
    assert repr(requests) == "<PlacementRequests built=1>"
