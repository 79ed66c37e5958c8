"""The reflector's lists: which are asked for, and what becomes of them. Ids are those of the checklist."""

import logging
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import cast

import anyio
import anyio.lowlevel
import pytest

from informers.api import Page
from informers.cache.reflector import REFUSED_RETRY_SECONDS, Reflector
from informers.cache.reflector_state import BackingOff, Listing, Watching
from informers.cache.store import Store
from informers.errors import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    ServerError,
    TooLargeResourceVersion,
    TooManyRequests,
    Unauthorized,
    Undecodable,
    Unreachable,
)
from tests.informers.scripted_api import THINGS, ScriptedApi, Thing, bad_thing, page, thing
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


def reflector_of(api: ScriptedApi, store: Store[Thing] | None = None) -> Reflector[Thing]:
    return Reflector(api, THINGS, store if store is not None else Store(), rng=Random(0))


def names(store: Store[Thing]) -> list[str]:
    return [str(found) for found in store]


async def test_l1_the_first_list_is_consistent_and_paged() -> None:
    api = ScriptedApi(lists=[page(9, thing("a", 1), then="2"), page(9, thing("b", 2))])
    store: Store[Thing] = Store()
    assert await reflector_of(api, store).step(Listing()) == Watching()
    asked = [(list_.resource_version, list_.limit, list_.continue_token) for list_ in api.asked_lists]
    assert asked == [("", 500, ""), ("", 500, "2")]
    assert names(store) == ["a@1", "b@2"]
    assert store.resource_version == "9"


async def test_l2_a_relist_asks_for_the_last_version_seen_without_a_limit() -> None:
    api = ScriptedApi(lists=[page(5), page(9)], watches=[[ServerError("storage")], [Gone("too old")]])
    reflector = reflector_of(api)
    state = await reflector.step(Listing())
    while len(api.asked_lists) < 2:
        state = await reflector.step(state)
    assert (api.asked_lists[1].resource_version, api.asked_lists[1].limit) == ("5", 0)


@pytest.mark.parametrize("refusal", [Gone("expired"), TooLargeResourceVersion("not there yet")])
async def test_l3_a_relist_that_is_refused_is_made_consistent_at_once_and_only_once(
    refusal: ApiError,
) -> None:
    api = ScriptedApi(lists=[refusal, page(9)])
    reflector = reflector_of(api)
    state = await reflector.step(Listing("5"))
    assert state == Listing()
    assert await reflector.step(state) == Watching()
    assert [asked.resource_version for asked in api.asked_lists] == ["5", ""]
    assert [asked.at_seconds for asked in api.asked_lists] == [0, 0]


async def test_l3_a_consistent_list_that_is_refused_backs_off_and_stays_consistent() -> None:
    state = await reflector_of(ScriptedApi(lists=[Gone("expired")])).step(Listing())
    assert isinstance(state, BackingOff)
    assert state.then == Listing()


async def test_l5_a_page_that_expired_leads_to_one_unpaged_list() -> None:
    first = page(9, thing("a", 1), then="2")
    api = ScriptedApi(lists=[first, Gone("continue token"), page(12, thing("b", 2))])
    store: Store[Thing] = Store()
    assert await reflector_of(api, store).step(Listing()) == Watching()
    asked = [(list_.limit, list_.continue_token) for list_ in api.asked_lists]
    assert asked == [(500, ""), (500, "2"), (0, "")]
    assert names(store) == ["b@2"]
    assert store.resource_version == "12"


async def test_a_watch_goes_on_from_the_version_of_the_first_page() -> None:
    api = ScriptedApi(lists=[page(9, thing("a", 1), then="2"), page(12, thing("b", 11))])
    store: Store[Thing] = Store()
    await reflector_of(api, store).step(Listing())
    assert store.resource_version == "9"


async def test_l6_a_page_that_fails_leaves_the_cache_as_it_was() -> None:
    api = ScriptedApi(
        lists=[
            page(1, thing("a", 1)),
            page(9, thing("b", 2), then="2"),
            page(9, thing("c", 3), then="3"),
            ServerError("storage"),
        ]
    )
    store: Store[Thing] = Store()
    reflector = reflector_of(api, store)
    await reflector.step(Listing())
    state = await reflector.step(Listing())
    assert isinstance(state, BackingOff)
    assert state.then == Listing()
    assert names(store) == ["a@1"]
    assert store.resource_version == "1"


async def test_l11_an_empty_list_syncs() -> None:
    store: Store[Thing] = Store()
    assert await reflector_of(ScriptedApi(lists=[page(3)]), store).step(Listing()) == Watching()
    assert store.synced


async def test_l12_a_server_that_went_back_in_time_is_listed_consistently_and_believed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store: Store[Thing] = Store()
    api = ScriptedApi(
        lists=[page(500, thing("a", 400), thing("b", 450)), page(300), page(300, thing("a", 250))]
    )
    reflector = reflector_of(api, store)
    await reflector.step(Listing())
    state = await reflector.step(Listing("500"))
    assert state == Listing()
    assert await reflector.step(state) == Watching()
    assert names(store) == ["a@250"]
    assert store.resource_version == "300"
    assert "went back in time, from version 500 to 300" in caplog.text


@pytest.mark.parametrize("refusal", [TooManyRequests, ServerError])
async def test_w7_retry_after_is_a_minimum_for_lists(
    refusal: type[TooManyRequests | ServerError],
) -> None:
    api = ScriptedApi(lists=[refusal("wait", retry_after_seconds=7.0)])
    state = await reflector_of(api).step(Listing())
    assert state == BackingOff(7.0, then=Listing())


@pytest.mark.parametrize("refusal", [Unauthorized("who"), Unreachable("refused"), Undecodable("not JSON")])
async def test_any_failure_of_a_list_is_tried_again(refusal: ApiError) -> None:
    state = await reflector_of(ScriptedApi(lists=[refusal])).step(Listing("7"))
    assert isinstance(state, BackingOff)
    assert state.then == Listing("7")
    assert 0.8 <= state.seconds <= 1.6


async def test_w12_an_unreadable_item_is_counted_and_logged_and_the_rest_syncs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    things = [thing(f"thing-{number}", number) for number in range(1, 1000)]
    api = ScriptedApi(lists=[page(2000, *things, unreadable=[bad_thing("odd", 1500)])])
    store: Store[Thing] = Store()
    reflector = reflector_of(api, store)
    assert await reflector.step(Listing()) == Watching()
    assert store.synced
    assert len(store) == 999
    assert store.statistics().unreadable == 1
    assert reflector.statistics().decode_errors_total == 1
    assert "space/odd (version 1500) cannot be decoded" in caplog.text


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (Forbidden("no right to list things"), "no right to list things"),
        (
            NotFound("404 page not found"),
            "404 page not found: the server has no things of example.com/v1 (a missing Custom",
        ),
    ],
)
async def test_w16_an_absent_or_forbidden_resource_is_named_once_and_retried_slowly_until_it_is_there(
    refusal: ApiError, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    api = ScriptedApi(lists=[refusal, refusal, refusal, page(1)])
    reflector = reflector_of(api)
    state = await reflector.step(Listing())
    for _ in range(2):
        assert isinstance(state, BackingOff)
        assert state.seconds >= REFUSED_RETRY_SECONDS
        assert str(reflector.problem).startswith("cannot list")
        state = await reflector.step(await reflector.step(state))
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "things.example.com: cannot list" in warnings[0]
    assert told in warnings[0]
    assert await reflector.step(await reflector.step(state)) == Watching()
    assert reflector.problem is None
    assert "things.example.com: well again" in caplog.text


async def test_l17_other_tasks_run_while_a_big_list_is_taken_in() -> None:
    turns = 0

    async def heartbeat() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    things = [thing(f"thing-{number}", number) for number in range(1, 10_001)]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heartbeat)
        await anyio.lowlevel.checkpoint()
        await reflector_of(ScriptedApi(lists=[page(20_000, *things)])).step(Listing())
        tasks.cancel_scope.cancel()
    assert turns >= 10_000 / 250


class PagesMadeOnDemand(ScriptedApi):
    """Makes each page when it is asked for, as a decoder does, so that only who keeps it holds it."""

    async def list_page(self, *_args: object, **kwargs: object) -> Page[Thing]:  # type: ignore[override]
        asked = int(str(kwargs["continue_token"]) or 0)
        await anyio.lowlevel.checkpoint()
        things = (
            thing(f"thing-{number}", 1, "x" * 2000 + str(number)) for number in range(asked, asked + 500)
        )
        take = cast("Callable[[Thing], object]", kwargs["take"])
        for found in things:
            take(found)
        return page(9, then=str(asked + 500) if asked < 4500 else "")


async def test_l16_a_relist_holds_the_set_once_and_a_page() -> None:
    store: Store[Thing] = Store()
    reflector = reflector_of(PagesMadeOnDemand(), store)
    tracemalloc.start()
    try:
        await reflector.step(Listing())
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        await reflector.step(Listing())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(store) == 5000
    assert peak < 1.4 * held
