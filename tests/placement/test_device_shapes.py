"""The device shapes of a dedicated claim, their order, and the node preferences of its Pod."""

from __future__ import annotations

from typing import Any

import pytest

from placement.device_request import device_requests
from placement.types import GIB, DeviceShape, PreferredNode, Role
from tests.placement.builders import DRIVER, Scene, gpus, node, request, slice_of


def names(scene: Scene, **changes: Any) -> list[str]:
    return [shape.name for shape in scene.fleet.device_shapes(request(**changes))]


def test_shapes_that_fit_the_request_are_ordered_tightest_first() -> None:
    scene = Scene().node("a", 141, 80).node("b", 40, 24).node("c", 80)
    assert names(scene) == ["t1x80", "t1x141"]
    assert names(scene, memory_bytes=GIB) == ["t1x24", "t1x40", "t1x80", "t1x141"]


def test_sizes_that_round_up_to_one_gib_value_are_one_shape() -> None:
    scene = Scene().node("a", 79.65).node("b", 80)
    assert names(scene) == ["t1x80"]


def test_a_shape_needs_a_device_with_the_exact_memory() -> None:
    scene = Scene().node("a", 79.65)
    assert names(scene, memory_bytes=80 * GIB) == []


def test_full_and_unschedulable_nodes_keep_their_shapes() -> None:
    scene = Scene().node("a", 80, cordoned=True, ready=False).shared("claim", on="a")
    assert names(scene) == ["t1x80"]


def test_only_enabled_nodes_that_accept_the_role_have_shapes() -> None:
    scene = Scene().node("a", 80, roles=frozenset({Role.SAMPLER})).node("b", 141, enabled=False)
    assert names(scene) == []
    assert names(scene, role=Role.SAMPLER) == ["t1x80"]


def test_several_devices_are_on_one_node_and_have_one_shape() -> None:
    scene = Scene().node("a", 80, 141).node("b", 80, 141, 141).node("c", 80)
    assert names(scene, devices=2) == ["t2x141"]
    assert names(scene, devices=3) == []


def test_more_than_eight_shapes_become_seven_and_one_open_upwards() -> None:
    sizes = (10, 20, 30, 40, 50, 60, 70, 80)
    scene = Scene().node("a", *sizes)
    assert scene.fleet.device_shapes(request(memory_bytes=GIB)) == tuple(DeviceShape(1, gib) for gib in sizes)
    scene.node("b", 90, 100)
    shapes = scene.fleet.device_shapes(request(memory_bytes=GIB))
    assert shapes[:7] == tuple(DeviceShape(1, gib) for gib in sizes[:7])
    assert shapes[7:] == (DeviceShape(1, 80, open_upwards=True),)


def test_shapes_follow_the_nodes() -> None:
    scene = Scene().node("a", 80).node("b", 80)
    scene.fleet.remove_node("a")
    assert names(scene) == ["t1x80"]
    scene.fleet.set_slice(slice_of("b", gpus(141)))
    assert names(scene) == ["t1x141"]
    scene.fleet.set_node(node("b", enabled=False))
    assert names(scene) == []


def test_node_weights_follow_the_order_of_the_shapes() -> None:
    scene = Scene().node("d", 60).node("c", 80).node("b", 80, 141).node("a", 141).node("e", 200)
    assert scene.fleet.preferred_nodes(request()) == (
        PreferredNode("d", 100),
        PreferredNode("b", 67),
        PreferredNode("c", 67),
        PreferredNode("a", 34),
    )


def test_a_single_shape_prefers_no_node() -> None:
    assert Scene().node("a", 80).fleet.preferred_nodes(request()) == ()


def test_at_most_one_hundred_nodes_are_preferred_tightest_first_then_by_name() -> None:
    scene = Scene().node("z", 60).node("large", 200)
    for number in range(120):
        scene.node(f"n{number:03}", 80)
    preferred = scene.fleet.preferred_nodes(request())
    assert len(preferred) == 100
    assert preferred[0] == PreferredNode("z", 100)
    assert [term.node for term in preferred[1:]] == [f"n{number:03}" for number in range(99)]


def test_the_shapes_are_the_alternatives_of_one_device_request() -> None:
    shapes = (DeviceShape(1, 80), DeviceShape(1, 141, open_upwards=True))
    memory = 60 * GIB + 1
    guard = f'"memory" in device.capacity["{DRIVER}"]'
    lower = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{memory}")) >= 0'
    upper = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) <= 0'
    assert device_requests(shapes, memory_bytes=memory, device_class="gpu.class", driver=DRIVER) == [
        {
            "name": "gpu",
            "firstAvailable": [
                {
                    "name": "t1x80",
                    "deviceClassName": "gpu.class",
                    "selectors": [{"cel": {"expression": f"{guard} && {lower} && {upper}"}}],
                    "allocationMode": "ExactCount",
                    "count": 1,
                },
                {
                    "name": "t1x141",
                    "deviceClassName": "gpu.class",
                    "selectors": [{"cel": {"expression": f"{guard} && {lower}"}}],
                    "allocationMode": "ExactCount",
                    "count": 1,
                },
            ],
        }
    ]


@pytest.mark.parametrize("name", ["", 'x"]', "UPPER", "a..b", "-a", "a" * 254, "a\n"])
def test_device_class_and_driver_must_be_dns_subdomains(name: str) -> None:
    with pytest.raises(ValueError, match="device driver"):
        device_requests((DeviceShape(1, 80),), memory_bytes=1, device_class="gpu", driver=name)
    with pytest.raises(ValueError, match="device class"):
        device_requests((DeviceShape(1, 80),), memory_bytes=1, device_class=name, driver=DRIVER)


@pytest.mark.parametrize("count", [0, 9])
def test_a_claim_has_one_to_eight_alternatives(count: int) -> None:
    shapes = tuple(DeviceShape(1, gib) for gib in range(count))
    with pytest.raises(ValueError, match=f"not {count}"):
        device_requests(shapes, memory_bytes=1, device_class="gpu", driver=DRIVER)
