"""The order in which waiting workers are served, and who yields to whom."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.queue.scheduling_queue import LineStatistics, Seniority, WaitingLine
from informers.api import ObjectKey


def key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


def since(minute: int, name: str) -> Seniority:
    return (f"2026-01-01T00:{minute:02}:00Z", name)


def names(keys: Iterable[ObjectKey]) -> list[str]:
    return [each.name for each in keys]


@pytest.fixture
def line() -> WaitingLine:
    """Four workers in two lanes."""
    line = WaitingLine()
    for name, minute, lane in (("d", 3, "big"), ("b", 1, "small"), ("c", 1, "big"), ("a", 2, "small")):
        line.join(key(name), since(minute, name), lane)
    return line


def test_who_cannot_say_what_is_in_its_way_is_known_until_looked_at_or_gone(
    line: WaitingLine,
) -> None:
    for name in ("d", "a", "c", "nobody"):
        line.cannot_explain(key(name))
    assert names(line.unexplained()) == ["c", "a", "d"]
    line.looked_at(key("a"))
    line.leave(key("c"))
    assert names(line.unexplained()) == ["d"]
    assert line.statistics().unexplained == 1


def test_the_oldest_is_first_across_lanes_and_names_break_ties(line: WaitingLine) -> None:
    assert names(line) == ["b", "c", "a", "d"]
    lanes = {lane: names(k for _, k in entries) for lane, entries in line.by_lane().items()}
    assert lanes == {"small": ["b", "a"], "big": ["c", "d"]}


def test_joining_again_moves_nobody(line: WaitingLine) -> None:
    line.woken([key("b")])
    line.join(key("b"), since(1, "b"), "small")
    assert names(line) == ["b", "c", "a", "d"]
    assert line.statistics().woken == 1


def test_another_workload_of_the_same_name_stands_where_its_age_puts_it(line: WaitingLine) -> None:
    line.woken([key("b")])
    line.join(key("b"), since(9, "b"), "big")
    assert names(line) == ["c", "a", "d", "b"]
    assert line.statistics() == LineStatistics(waiting=4, lanes=2, woken=0, unexplained=0)


def test_the_last_to_leave_a_lane_closes_it(line: WaitingLine) -> None:
    line.leave(key("a"))
    line.leave(key("b"))
    assert "small" not in line.by_lane()
    assert names(line) == ["c", "d"]
    assert len(line) == 2


def test_leaving_twice_or_without_having_joined_is_harmless(line: WaitingLine) -> None:
    assert not line.leave(key("a"))
    assert not line.leave(key("a"))
    assert not line.leave(key("stranger"))
    assert key("a") not in line


def test_a_worker_yields_to_older_ones_that_were_woken_and_not_looked_at(line: WaitingLine) -> None:
    line.woken([key("d"), key("a"), key("c")])
    assert names(line.woken_before(key("d"), since(3, "d"))) == ["c", "a"]
    assert names(line.woken_before(key("b"), since(1, "b"))) == []

    assert line.looked_at(key("c"))
    assert not line.looked_at(key("c"))
    assert names(line.woken_before(key("d"), since(3, "d"))) == ["a"]


def test_nobody_yields_to_one_that_does_not_wait(line: WaitingLine) -> None:
    line.woken([key("stranger"), key("b")])
    assert line.statistics().woken == 1
    assert line.leave(key("b")), "it was woken and never looked"
    assert line.woken_before(key("d"), since(3, "d")) == []


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.sampled_from(["x", "y", None])),
        max_size=30,
    )
)
def test_the_line_is_in_order_after_any_coming_and_going(
    moves: list[tuple[str, int, str | None]],
) -> None:
    line = WaitingLine()
    expected: dict[str, Seniority] = {}
    for name, minute, lane in moves:
        if minute == 0:
            line.leave(key(name))
            expected.pop(name, None)
        else:
            line.join(key(name), since(minute, name), lane)
            expected[name] = since(minute, name)
    assert names(line) == sorted(expected, key=lambda name: expected[name])
    assert len(line) == len(expected)
    assert all(line.by_lane().values()), "a lane is empty"
