"""Reflector statistics: lists by cause, durations, items, age of the last event and step."""

from __future__ import annotations

from random import Random

import anyio
import pytest

from informers.cache.reflector import Reflector
from informers.cache.reflector_state import ListCause, Listing, ReflectorStatistics, State, Watching
from informers.cache.store import Store
from informers.errors import Gone, ServerError
from tests.informers.scripted_api import (
    THINGS,
    ListReply,
    ScriptedApi,
    Thing,
    WatchReply,
    added,
    bookmark,
    page,
    thing,
)
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


def reflector_of(lists: list[ListReply], *watches: WatchReply) -> Reflector[Thing]:
    store: Store[Thing] = Store()
    return Reflector(ScriptedApi(lists=lists, watches=list(watches)), THINGS, store, rng=Random(0))


async def steps(reflector: Reflector[Thing], count: int) -> ReflectorStatistics:
    state: State = Listing()
    for _ in range(count):
        state = await reflector.step(state)
    return reflector.statistics()


async def test_m1_every_cause_is_counted_from_the_start() -> None:
    statistics = reflector_of([]).statistics()
    assert statistics.lists_by_cause == dict.fromkeys(map(str, ListCause), 0)
    assert statistics.last_event_age_seconds is None
    assert statistics.last_step_age_seconds == 0
    assert statistics.last_resource_version == ""


async def test_m1_a_list_is_counted_with_its_size_and_duration() -> None:
    statistics = await steps(reflector_of([page(7, thing("a", 1), then="2"), page(7, thing("b", 2))]), 1)
    assert (statistics.lists_total, statistics.lists_by_cause["first"]) == (1, 1)
    assert (statistics.items_per_list.count, statistics.items_per_list.sum) == (1, 2)
    assert statistics.list_duration_seconds.count == 1
    assert statistics.last_resource_version == "7"
    assert statistics.last_event_age_seconds == 0


async def test_m1_a_failed_list_has_no_duration_and_the_next_is_a_retry() -> None:
    statistics = await steps(reflector_of([ServerError("storage"), page(7)]), 3)
    assert statistics.lists_by_cause == {**dict.fromkeys(map(str, ListCause), 0), "first": 1, "retry": 1}
    assert statistics.list_duration_seconds.count == 1
    assert statistics.failures_total == 1


async def test_m1_a_watch_is_counted_with_its_events_and_duration() -> None:
    watch: WatchReply = [added(thing("a", 8)), 5.0, bookmark(9)]
    statistics = await steps(reflector_of([page(7)], watch), 2)
    assert statistics.watches_total == 1
    assert (statistics.items_per_watch.count, statistics.items_per_watch.sum) == (1, 2)
    assert statistics.watch_duration_seconds.sum == pytest.approx(5.0)
    assert statistics.last_resource_version == "9"


async def test_m1_a_failed_watch_has_a_duration_too() -> None:
    statistics = await steps(reflector_of([page(7)], [3.0, ServerError("storage")]), 2)
    assert statistics.watch_duration_seconds.sum == pytest.approx(3.0)


RELISTS: dict[ListCause, list[WatchReply]] = {
    ListCause.EXPIRED: [[Gone("too old")]],
    ListCause.REGRESSED: [[bookmark(3)]],
    ListCause.FRUITLESS: [[ServerError("storage")]] * 3,
}


@pytest.mark.parametrize("cause", RELISTS)
async def test_m1_a_relist_is_counted_by_its_cause(cause: ListCause) -> None:
    watches = RELISTS[cause]
    # A list, each watch with the delay after it, and the list after them.
    statistics = await steps(reflector_of([page(7), page(9)], *watches), 2 + 2 * len(watches))
    assert statistics.lists_by_cause == {**dict.fromkeys(map(str, ListCause), 0), "first": 1, str(cause): 1}


async def test_m2_statistics_show_the_age_of_the_last_event_and_step() -> None:
    reflector = reflector_of([page(7)], [40.0, added(thing("a", 8)), 60.0])
    await reflector.step(Listing())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reflector.step, Watching())
        await anyio.sleep(30)
        assert reflector.statistics().last_event_age_seconds == pytest.approx(30)
        await anyio.sleep(30)
        assert reflector.statistics().last_event_age_seconds == pytest.approx(20)
        assert reflector.statistics().last_step_age_seconds == pytest.approx(20)
        tasks.cancel_scope.cancel()
