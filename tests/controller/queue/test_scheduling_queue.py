"""The order of the scheduling queue, and which workers yield to others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.queue.scheduling_queue import CreationOrder, SchedulingQueue
from informers.api import ObjectKey


def key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


def since(minute: int, name: str) -> CreationOrder:
    return (f"2026-01-01T00:{minute:02}:00Z", name)


def names(keys: Iterable[ObjectKey]) -> list[str]:
    return [each.name for each in keys]


@pytest.fixture
def scheduling_queue() -> SchedulingQueue:
    """Four workers in two equivalence classes."""
    scheduling_queue = SchedulingQueue()
    for name, minute, equivalence_class in (
        ("d", 3, "big"),
        ("b", 1, "small"),
        ("c", 1, "big"),
        ("a", 2, "small"),
    ):
        scheduling_queue.add(key(name), since(minute, name), equivalence_class)
    return scheduling_queue


def test_an_unexplained_worker_is_listed_until_it_is_reconciled_or_removed(
    scheduling_queue: SchedulingQueue,
) -> None:
    for name in ("d", "a", "c", "absent"):
        scheduling_queue.mark_unexplained(key(name))
    assert names(scheduling_queue.unexplained()) == ["c", "a", "d"]
    scheduling_queue.start(key("a"))
    scheduling_queue.remove(key("c"))
    assert names(scheduling_queue.unexplained()) == ["d"]
    assert "unexplained=1" in repr(scheduling_queue)


def test_workers_are_ordered_by_age_across_classes_and_names_break_ties(
    scheduling_queue: SchedulingQueue,
) -> None:
    assert names(scheduling_queue) == ["b", "c", "a", "d"]
    classes = {
        equivalence_class: names(k for _, k in entries)
        for equivalence_class, entries in scheduling_queue.by_equivalence_class().items()
    }
    assert classes == {"small": ["b", "a"], "big": ["c", "d"]}


def test_adding_a_worker_again_changes_nothing(scheduling_queue: SchedulingQueue) -> None:
    scheduling_queue.mark_activated([key("b")])
    scheduling_queue.add(key("b"), since(1, "b"), "small")
    assert names(scheduling_queue) == ["b", "c", "a", "d"]
    assert "activated=1" in repr(scheduling_queue)


def test_another_workload_of_the_same_name_is_queued_by_its_own_age(
    scheduling_queue: SchedulingQueue,
) -> None:
    scheduling_queue.mark_activated([key("b")])
    scheduling_queue.add(key("b"), since(9, "b"), "big")
    assert names(scheduling_queue) == ["c", "a", "d", "b"]
    assert repr(scheduling_queue) == "<SchedulingQueue waiting=4 classes=2 activated=0 unexplained=0>"


def test_removing_the_last_worker_of_a_class_removes_the_class(scheduling_queue: SchedulingQueue) -> None:
    scheduling_queue.remove(key("a"))
    scheduling_queue.remove(key("b"))
    assert "small" not in scheduling_queue.by_equivalence_class()
    assert names(scheduling_queue) == ["c", "d"]
    assert len(scheduling_queue) == 2


def test_removing_an_absent_worker_is_harmless(scheduling_queue: SchedulingQueue) -> None:
    assert not scheduling_queue.remove(key("a"))
    assert not scheduling_queue.remove(key("a"))
    assert not scheduling_queue.remove(key("absent"))
    assert key("a") not in scheduling_queue


def test_a_worker_yields_to_older_activated_ones_that_were_not_reconciled_yet(
    scheduling_queue: SchedulingQueue,
) -> None:
    scheduling_queue.mark_activated([key("d"), key("a"), key("c")])
    assert names(scheduling_queue.older_activated(key("d"), since(3, "d"))) == ["c", "a"]
    assert names(scheduling_queue.older_activated(key("b"), since(1, "b"))) == []

    assert scheduling_queue.start(key("c"))
    assert not scheduling_queue.start(key("c"))
    assert names(scheduling_queue.older_activated(key("d"), since(3, "d"))) == ["a"]


def test_no_worker_yields_to_one_that_does_not_wait(scheduling_queue: SchedulingQueue) -> None:
    scheduling_queue.mark_activated([key("absent"), key("b")])
    assert "activated=1" in repr(scheduling_queue)
    assert scheduling_queue.remove(key("b")), "it was activated and never reconciled"
    assert scheduling_queue.older_activated(key("d"), since(3, "d")) == []


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.sampled_from(["x", "y", None])),
        max_size=30,
    )
)
def test_the_queue_is_sorted_after_any_sequence_of_adds_and_removals(
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
    assert all(scheduling_queue.by_equivalence_class().values()), "a class is empty"
