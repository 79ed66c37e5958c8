"""The order in which waiting workers are served, and who yields to whom."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.queue.scheduling_queue import CreationOrder, SchedulingQueue, SchedulingQueueStatistics
from informers.api import ObjectKey


def key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


def since(minute: int, name: str) -> CreationOrder:
    return (f"2026-01-01T00:{minute:02}:00Z", name)


def names(keys: Iterable[ObjectKey]) -> list[str]:
    return [each.name for each in keys]


@pytest.fixture
def scheduling_queue() -> SchedulingQueue:
    """Four workers in two lanes."""
    scheduling_queue = SchedulingQueue()
    for name, minute, equivalence_class in (
        ("d", 3, "big"),
        ("b", 1, "small"),
        ("c", 1, "big"),
        ("a", 2, "small"),
    ):
        scheduling_queue.add(key(name), since(minute, name), equivalence_class)
    return scheduling_queue


def test_who_cannot_say_what_is_in_its_way_is_known_until_looked_at_or_gone(
    scheduling_queue: SchedulingQueue,
) -> None:
    for name in ("d", "a", "c", "nobody"):
        scheduling_queue.mark_unexplained(key(name))
    assert names(scheduling_queue.unexplained()) == ["c", "a", "d"]
    scheduling_queue.start(key("a"))
    scheduling_queue.remove(key("c"))
    assert names(scheduling_queue.unexplained()) == ["d"]
    assert scheduling_queue.statistics().unexplained == 1


def test_the_oldest_is_first_across_lanes_and_names_break_ties(scheduling_queue: SchedulingQueue) -> None:
    assert names(scheduling_queue) == ["b", "c", "a", "d"]
    lanes = {
        equivalence_class: names(k for _, k in entries)
        for equivalence_class, entries in scheduling_queue.by_equivalence_class().items()
    }
    assert lanes == {"small": ["b", "a"], "big": ["c", "d"]}


def test_joining_again_moves_nobody(scheduling_queue: SchedulingQueue) -> None:
    scheduling_queue.mark_activated([key("b")])
    scheduling_queue.add(key("b"), since(1, "b"), "small")
    assert names(scheduling_queue) == ["b", "c", "a", "d"]
    assert scheduling_queue.statistics().activated == 1


def test_another_workload_of_the_same_name_stands_where_its_age_puts_it(
    scheduling_queue: SchedulingQueue,
) -> None:
    scheduling_queue.mark_activated([key("b")])
    scheduling_queue.add(key("b"), since(9, "b"), "big")
    assert names(scheduling_queue) == ["c", "a", "d", "b"]
    assert scheduling_queue.statistics() == SchedulingQueueStatistics(
        waiting=4, lanes=2, activated=0, unexplained=0
    )


def test_the_last_to_leave_a_lane_closes_it(scheduling_queue: SchedulingQueue) -> None:
    scheduling_queue.remove(key("a"))
    scheduling_queue.remove(key("b"))
    assert "small" not in scheduling_queue.by_equivalence_class()
    assert names(scheduling_queue) == ["c", "d"]
    assert len(scheduling_queue) == 2


def test_leaving_twice_or_without_having_joined_is_harmless(scheduling_queue: SchedulingQueue) -> None:
    assert not scheduling_queue.remove(key("a"))
    assert not scheduling_queue.remove(key("a"))
    assert not scheduling_queue.remove(key("stranger"))
    assert key("a") not in scheduling_queue


def test_a_worker_yields_to_older_ones_that_were_woken_and_not_looked_at(
    scheduling_queue: SchedulingQueue,
) -> None:
    scheduling_queue.mark_activated([key("d"), key("a"), key("c")])
    assert names(scheduling_queue.older_activated(key("d"), since(3, "d"))) == ["c", "a"]
    assert names(scheduling_queue.older_activated(key("b"), since(1, "b"))) == []

    assert scheduling_queue.start(key("c"))
    assert not scheduling_queue.start(key("c"))
    assert names(scheduling_queue.older_activated(key("d"), since(3, "d"))) == ["a"]


def test_nobody_yields_to_one_that_does_not_wait(scheduling_queue: SchedulingQueue) -> None:
    scheduling_queue.mark_activated([key("stranger"), key("b")])
    assert scheduling_queue.statistics().activated == 1
    assert scheduling_queue.remove(key("b")), "it was woken and never looked"
    assert scheduling_queue.older_activated(key("d"), since(3, "d")) == []


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.sampled_from(["x", "y", None])),
        max_size=30,
    )
)
def test_the_line_is_in_order_after_any_coming_and_going(
    moves: list[tuple[str, int, str | None]],
) -> None:
    scheduling_queue = SchedulingQueue()
    expected: dict[str, CreationOrder] = {}
    for name, minute, equivalence_class in moves:
        if minute == 0:
            scheduling_queue.remove(key(name))
            expected.pop(name, None)
        else:
            scheduling_queue.add(key(name), since(minute, name), equivalence_class)
            expected[name] = since(minute, name)
    assert names(scheduling_queue) == sorted(expected, key=lambda name: expected[name])
    assert len(scheduling_queue) == len(expected)
    assert all(scheduling_queue.by_equivalence_class().values()), "a lane is empty"
