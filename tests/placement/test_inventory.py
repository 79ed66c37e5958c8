"""Which published devices count, and which events may change a decision."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placement.fleet import Fleet
from placement.inventory import MAX_DEMANDS
from placement.types import GIB, CounterUse, Device, DeviceSlice
from tests.placement.builders import DRIVER, Scene, attributes, demand, gpus, node, request, slice_of


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


def slots(*names: str, amount: int = 1) -> tuple[CounterUse, ...]:
    return tuple(CounterUse("gpu-0", name, amount) for name in names)


@given(st.data())
def test_no_more_parts_fit_than_count_at_once(data: st.DataObject) -> None:
    """The count is an upper bound: `NoCapacity` is never reported for what can be had."""
    counters = data.draw(st.dictionaries(st.sampled_from("abc"), st.integers(0, 6), min_size=1))
    uses = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 4)).map(
        lambda drawn: tuple(CounterUse("gpu-0", name, amount) for name, amount in sorted(drawn.items()))
    )
    parts = data.draw(st.lists(uses, min_size=1, max_size=6))
    fleet = fleet_with_node()
    devices = tuple(Device(f"part-{n}", 80 * GIB, draws=draws) for n, draws in enumerate(parts))
    available = tuple(CounterUse("gpu-0", name, amount) for name, amount in counters.items())
    fleet.set_slice(slice_of("node", devices, counters=available))

    def allowed(chosen: tuple[tuple[CounterUse, ...], ...]) -> bool:
        drawn = Counter[str]()
        for part in chosen:
            for use in part:
                drawn[use.counter] += use.amount
        return all(amount <= counters.get(name, 0) for name, amount in drawn.items())

    most = max(n for n in range(len(parts) + 1) if any(map(allowed, combinations(parts, n))))
    assert fleet.capacity().devices >= most


def test_equal_parts_count_as_often_as_their_counters_allow() -> None:
    fleet = fleet_with_node()
    halves = tuple(Device(f"half-{n}", 40 * GIB, draws=slots("slots", amount=3)) for n in range(3))
    fleet.set_slice(slice_of("node", halves, counters=slots("slots", amount=7)))
    assert fleet.device_shapes(request(memory_bytes=30 * GIB, devices=2))
    assert not fleet.device_shapes(request(memory_bytes=30 * GIB, devices=3))
    assert fleet.set_slice(slice_of("node", halves, counters=slots("slots", amount=9)))
    assert fleet.device_shapes(request(memory_bytes=30 * GIB, devices=3))


def test_parts_of_several_devices_add_up() -> None:
    fleet = fleet_with_node()
    wholes = tuple(
        Device(f"gpu-{n}", 80 * GIB, draws=(CounterUse(f"gpu-{n}", "slots", 7),)) for n in range(2)
    )
    counters = tuple(CounterUse(f"gpu-{n}", "slots", 7) for n in range(2))
    fleet.set_slice(slice_of("node", wholes, counters=counters))
    assert fleet.device_shapes(request(devices=2))


def test_more_demands_than_are_indexed_still_decide_alike() -> None:
    scene = Scene()
    scene.fleet.set_node(node())
    scene.fleet.set_slice(slice_of("node", (Device("gpu-0", 80 * GIB, attributes=attributes(serial="7")),)))
    scene.shared("claim")
    for _ in range(2):
        for number in range(MAX_DEMANDS + 8):
            wanted = request(attributes=demand(serial=[str(number)]))
            assert (scene.fleet.select(wanted) is not None) == (number == 7)
            assert bool(scene.fleet.device_shapes(wanted)) == (number == 7)
    assert len(list(scene.fleet._inventory.demands)) == MAX_DEMANDS
