"""The reflector's lists. Test names contain checklist IDs."""

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
    requested = [(list_.resource_version, list_.limit, list_.continue_token) for list_ in api.list_requests]
    assert requested == [("", 500, ""), ("", 500, "2")]
    assert names(store) == ["a@1", "b@2"]
    assert store.resource_version == "9"


async def test_l2_a_relist_requests_the_last_version_without_a_limit() -> None:
    api = ScriptedApi(lists=[page(5), page(9)], watches=[[ServerError("storage")], [Gone("too old")]])
    reflector = reflector_of(api)
    state = await reflector.step(Listing())
    while len(api.list_requests) < 2:
        state = await reflector.step(state)
    assert (api.list_requests[1].resource_version, api.list_requests[1].limit) == ("5", 0)


@pytest.mark.parametrize("refusal", [Gone("expired"), TooLargeResourceVersion("not there yet")])
async def test_l3_a_rejected_relist_is_repeated_at_once_as_consistent_and_only_once(
    refusal: ApiError,
) -> None:
    api = ScriptedApi(lists=[refusal, page(9)])
    reflector = reflector_of(api)
    state = await reflector.step(Listing("5"))
    assert state == Listing()
    assert await reflector.step(state) == Watching()
    assert [request.resource_version for request in api.list_requests] == ["5", ""]
    assert [request.at_seconds for request in api.list_requests] == [0, 0]


async def test_l3_a_rejected_consistent_list_backs_off_and_stays_consistent() -> None:
    state = await reflector_of(ScriptedApi(lists=[Gone("expired")])).step(Listing())
    assert isinstance(state, BackingOff)
    assert state.then == Listing()


async def test_l5_an_expired_page_leads_to_one_unpaged_list() -> None:
    first = page(9, thing("a", 1), then="2")
    api = ScriptedApi(lists=[first, Gone("continue token"), page(12, thing("b", 2))])
    store: Store[Thing] = Store()
    assert await reflector_of(api, store).step(Listing()) == Watching()
    requested = [(list_.limit, list_.continue_token) for list_ in api.list_requests]
    assert requested == [(500, ""), (500, "2"), (0, "")]
    assert names(store) == ["b@2"]
    assert store.resource_version == "12"


async def test_a_watch_starts_from_the_version_of_the_first_page() -> None:
    api = ScriptedApi(lists=[page(9, thing("a", 1), then="2"), page(12, thing("b", 11))])
    store: Store[Thing] = Store()
    await reflector_of(api, store).step(Listing())
    assert store.resource_version == "9"


async def test_l6_a_failed_page_leaves_the_cache_unchanged() -> None:
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


async def test_l12_a_regressed_server_is_listed_consistently_and_its_list_applied(
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
    logged = vars(caplog.records[0])
    assert logged["message"] == "Server returned an older resourceVersion"
    assert (logged["last_version"], logged["version"]) == ("500", "300")


@pytest.mark.parametrize("refusal", [TooManyRequests, ServerError])
async def test_w7_retry_after_is_a_minimum_for_lists(
    refusal: type[TooManyRequests | ServerError],
) -> None:
    api = ScriptedApi(lists=[refusal("wait", retry_after_seconds=7.0)])
    state = await reflector_of(api).step(Listing())
    assert state == BackingOff(7.0, then=Listing())


@pytest.mark.parametrize("refusal", [Unauthorized("who"), Unreachable("refused"), Undecodable("not JSON")])
async def test_any_failed_list_is_retried(refusal: ApiError) -> None:
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
    logged = vars(caplog.records[0])
    assert logged["message"] == "Failed to decode object, kept its last readable version"
    assert (logged["key"], logged["version"]) == ("space/odd", "1500")


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (Forbidden("no right to list things"), "no right to list things"),
        (
            NotFound("404 page not found"),
            "404 page not found: the server has no things of example.com/v1 (a missing Custom",
        ),
    ],
)
async def test_w16_an_absent_or_forbidden_resource_is_logged_once_and_retried_slowly(
    refusal: ApiError, message: str, caplog: pytest.LogCaptureFixture
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
    (warning,) = [vars(record) for record in caplog.records if record.levelno == logging.WARNING]
    assert (warning["message"], warning["resource"]) == ("Failed to list or watch", "things.example.com")
    assert warning["err"].startswith("cannot list")
    assert message in warning["err"]
    assert await reflector.step(await reflector.step(state)) == Watching()
    assert reflector.problem is None
    assert caplog.records[-1].message == "Recovered watch"


async def test_l17_other_tasks_run_while_a_big_list_is_applied() -> None:
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


class PagesOnDemand(ScriptedApi):
    """Creates the objects of a page on demand, as a decoder does, and keeps none of them."""

    async def list_page(self, *_args: object, **kwargs: object) -> Page[Thing]:  # type: ignore[override]
        start = int(str(kwargs["continue_token"]) or 0)
        await anyio.lowlevel.checkpoint()
        things = (
            thing(f"thing-{number}", 1, "x" * 2000 + str(number)) for number in range(start, start + 500)
        )
        on_object = cast("Callable[[Thing], object]", kwargs["on_object"])
        for found in things:
            on_object(found)
        return page(9, then=str(start + 500) if start < 4500 else "")


async def test_l16_a_relist_needs_the_memory_of_the_set_and_one_page() -> None:
    store: Store[Thing] = Store()
    reflector = reflector_of(PagesOnDemand(), store)
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
