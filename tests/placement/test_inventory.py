"""Which published devices count, and which events may change a decision."""

from __future__ import annotations

from typing import Any

from placement.fleet import Fleet
from placement.types import Device, DeviceSlice
from tests.placement.builders import DRIVER, Scene, gpus, node, request, slice_of


def numbered_slice(number: int, of: int, *devices: Device, **changes: Any) -> DeviceSlice:
    return slice_of("node", devices, name=f"part-{number}", slice_count=of, **changes)


def fleet_with_node() -> Fleet:
    fleet = Fleet(DRIVER)
    fleet.set_node(node())
    return fleet


def shape_names(fleet: Fleet) -> list[str]:
    return [shape.name for shape in fleet.device_shapes(request())]


def test_a_pool_counts_once_all_its_slices_are_present() -> None:
    fleet = fleet_with_node()
    assert not fleet.set_slice(numbered_slice(1, 2, *gpus(80)))
    assert shape_names(fleet) == []
    (pool,) = fleet.ignored_pools()
    assert (pool.pool, pool.nodes, pool.slices_present, pool.slices_expected) == ("node", ("node",), 1, 2)
    assert pool.incomplete
    assert fleet.set_slice(numbered_slice(2, 2, Device("gpu-1", 141 << 30)))
    assert shape_names(fleet) == ["t1x80", "t1x141"]
    assert fleet.ignored_pools() == ()


def test_a_newer_generation_hides_the_older_until_it_is_complete() -> None:
    fleet = fleet_with_node()
    fleet.set_slice(numbered_slice(1, 1, *gpus(80)))
    assert fleet.set_slice(numbered_slice(2, 2, *gpus(141), generation=2))
    assert shape_names(fleet) == []
    assert fleet.set_slice(numbered_slice(3, 2, Device("gpu-1", 200 << 30), generation=2))
    assert shape_names(fleet) == ["t1x141", "t1x200"]
    assert not fleet.remove_slice("part-1")


def test_an_unchanged_pool_of_a_new_generation_changes_nothing() -> None:
    fleet = fleet_with_node()
    fleet.set_slice(numbered_slice(1, 1, *gpus(80)))
    assert not fleet.set_slice(numbered_slice(1, 1, *gpus(80), generation=2))


def test_slices_of_other_drivers_and_without_a_node_are_ignored() -> None:
    fleet = fleet_with_node()
    assert not fleet.set_slice(numbered_slice(1, 1, *gpus(80), driver="nic.example.com"))
    assert not fleet.set_slice(slice_of("", gpus(80)))
    assert shape_names(fleet) == []
    fleet.set_slice(numbered_slice(1, 1, *gpus(80)))
    assert fleet.set_slice(numbered_slice(1, 1, *gpus(80), driver="nic.example.com"))
    assert shape_names(fleet) == []


def test_a_slice_that_moves_to_another_node_moves_its_devices() -> None:
    fleet = fleet_with_node()
    fleet.set_node(node("other"))
    fleet.set_slice(numbered_slice(1, 1, *gpus(80)))
    assert fleet.set_slice(slice_of("other", gpus(141), name="part-1"))
    assert shape_names(fleet) == ["t1x141"]


def test_a_pool_that_lists_a_device_twice_does_not_count() -> None:
    """kube-scheduler regards such a pool as invalid, and allocates nothing from it."""
    fleet = fleet_with_node()
    fleet.set_slice(numbered_slice(1, 2, Device("gpu-0", 141 << 30)))
    fleet.set_slice(numbered_slice(2, 2, Device("gpu-0", 80 << 30)))
    assert shape_names(fleet) == []
    (pool,) = fleet.ignored_pools()
    assert (pool.pool, pool.nodes, pool.cause) == ("node", ("node",), "device gpu-0 is listed twice")
    assert not pool.incomplete
    assert fleet.capacity().ignored_pools == 1
    assert fleet.set_slice(numbered_slice(2, 2, Device("gpu-1", 80 << 30)))
    assert shape_names(fleet) == ["t1x80", "t1x141"]
    assert fleet.ignored_pools() == ()


def test_one_slice_that_lists_a_device_twice_does_not_count() -> None:
    fleet = fleet_with_node()
    assert not fleet.set_slice(numbered_slice(1, 1, *gpus(80), *gpus(80)))
    assert shape_names(fleet) == []


def test_an_old_generation_with_the_same_device_does_not_invalidate_a_pool() -> None:
    fleet = fleet_with_node()
    fleet.set_slice(numbered_slice(1, 1, *gpus(80)))
    fleet.set_slice(numbered_slice(2, 1, *gpus(141), generation=2))
    assert shape_names(fleet) == ["t1x141"]


def test_pools_of_one_name_on_two_nodes_do_not_count() -> None:
    """An allocation names driver, pool and device, so the devices of such pools are ambiguous."""
    fleet = fleet_with_node()
    fleet.set_node(node("other"))
    fleet.set_slice(numbered_slice(1, 1, *gpus(80), pool="gpus"))
    assert shape_names(fleet) == ["t1x80"]
    assert fleet.set_slice(slice_of("other", gpus(141), pool="gpus", generation=7))
    assert shape_names(fleet) == []
    (pool,) = fleet.ignored_pools()
    assert (pool.pool, pool.nodes) == ("gpus", ("node", "other"))
    assert pool.cause == "several nodes have a pool of this name"
    assert fleet.remove_slice("other-slice")
    assert shape_names(fleet) == ["t1x80"]


def test_devices_without_memory_do_not_count() -> None:
    assert shape_names(Scene().node("node", None, 80).fleet) == ["t1x80"]


def test_node_events_report_whether_decisions_may_change() -> None:
    fleet = Fleet(DRIVER)
    assert not fleet.set_node(node(enabled=False))
    assert not fleet.set_node(node(enabled=False, ready=False))
    assert fleet.set_node(node())
    assert not fleet.set_node(node())
    assert fleet.set_node(node(cordoned=True))
    assert fleet.set_node(node(enabled=False))
    assert not fleet.remove_node("node")
    assert not fleet.remove_node("node")


def test_device_events_on_a_disabled_node_change_no_decision() -> None:
    fleet = Fleet(DRIVER)
    fleet.set_node(node(enabled=False))
    assert not fleet.set_slice(slice_of("node", gpus(80)))
    assert fleet.set_node(node())
    assert shape_names(fleet) == ["t1x80"]
