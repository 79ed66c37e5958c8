"""How watches of the server in memory can be made to misbehave, and what a client hears of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from controller.cluster.caches import CLAIM_LEDGERS
from informers.api import Selectors, WatchEvent, WatchEventType
from informers.errors import Gone, OutcomeUnknown
from ledger.state import ClaimLedger
from simulation.apiserver.client import ApiClient
from simulation.apiserver.kinds import LEDGERS
from simulation.apiserver.kinds import PODS as POD_KIND
from simulation.apiserver.server import ApiServer
from simulation.apiserver.watches import BOOKMARK_SECONDS, Watches
from tests.simulation.servers import lone_server

pytestmark = pytest.mark.anyio

Events = AsyncIterator[WatchEvent[ClaimLedger]]


class World:
    """A server with one client."""

    def __init__(self) -> None:
        self.server: ApiServer = lone_server()
        self.watches = Watches(self.server.store)
        self.client = ApiClient(self.server, self.watches, "test")

    def create(self, name: str) -> None:
        self.server.create(LEDGERS, "default", {"metadata": {"name": name}, "spec": {"claimName": "c"}})

    @asynccontextmanager
    async def watching(self, *, timeout_seconds: int = 600) -> AsyncIterator[Events]:
        version = str(self.server.store.revision)
        async with self.client.watch(
            CLAIM_LEDGERS,
            "default",
            resource_version=version,
            timeout_seconds=timeout_seconds,
            idle_seconds=70,
        ) as events:
            yield events


@pytest.fixture
async def world() -> World:
    return World()


async def named(events: Events) -> str:
    event = await anext(events)
    assert event.object is not None
    return event.object.metadata.name


async def test_a_lagging_watch_shows_changes_late_and_in_order(world: World) -> None:
    lags = iter([5.0, 1.0, 0.0])
    world.watches.lag_seconds = lambda _client, _kind: next(lags)
    async with world.watching() as events:
        for name in ("a", "b", "c"):
            world.create(name)
        shown = [(await named(events), anyio.current_time()) for _ in range(3)]

    assert shown == [("a", 5.0), ("b", 5.0), ("c", 5.0)], "nothing overtakes"


async def test_the_lag_of_one_client_and_kind_is_not_that_of_others(world: World) -> None:
    world.watches.lag_seconds = lambda client, kind: 5.0 if (client, kind) == ("test", POD_KIND) else 0.0
    async with world.watching() as events:
        world.create("a")
        assert await named(events) == "a"
        assert anyio.current_time() == 0


async def test_a_quiet_watch_is_told_how_far_the_server_has_come(world: World) -> None:
    async with world.watching() as events:
        world.server.create(POD_KIND, "default", {"metadata": {"name": "p"}, "spec": {"containers": [_C]}})
        event = await anext(events)

    assert event.type is WatchEventType.BOOKMARK
    assert event.resource_version == str(world.server.store.revision)
    assert anyio.current_time() == BOOKMARK_SECONDS


_C = {"name": "c", "image": "i"}


async def test_a_silent_watch_is_given_up_after_the_idle_time(world: World) -> None:
    async with world.watching() as events:
        (watch,) = world.watches.matching("test", LEDGERS)
        watch.silence()
        world.create("a")
        with pytest.raises(OutcomeUnknown):
            await anext(events)

    assert anyio.current_time() == 70


async def test_a_watch_closes_in_good_order_when_its_time_is_up(world: World) -> None:
    async with world.watching(timeout_seconds=30) as events:
        assert [event async for event in events] == []

    assert anyio.current_time() == 30
    assert world.watches.matching() == [], "and is forgotten"


async def test_a_server_that_closes_a_watch_sends_what_is_queued_first(world: World) -> None:
    async with world.watching() as events:
        world.create("a")
        world.watches.matching()[0].end()
        assert [event.type for event in [e async for e in events]] == [WatchEventType.ADDED]


async def test_a_cut_watch_loses_what_is_queued(world: World) -> None:
    async with world.watching() as events:
        world.create("a")
        world.watches.matching()[0].cut()
        with pytest.raises(OutcomeUnknown):
            await anext(events)


async def test_a_compacted_version_is_gone_for_new_watches_only(world: World) -> None:
    async with world.watching() as events:
        old = str(world.server.store.revision)
        world.create("a")
        world.server.store.compact()
        async with world.client.watch(
            CLAIM_LEDGERS, "default", resource_version=old, timeout_seconds=1, idle_seconds=70
        ) as late:
            with pytest.raises(Gone):
                await anext(late)
        assert await named(events) == "a", "an open watch goes on"


async def test_history_that_is_gone_does_not_come_back(world: World) -> None:
    store = world.server.store
    store.compact()
    floor = store.compacted
    store.compact(floor - 1)
    assert store.compacted == floor


async def test_a_page_of_a_compacted_list_is_gone(world: World) -> None:
    for name in ("a", "b"):
        world.create(name)
    page = await world.client.list_page(CLAIM_LEDGERS, "default", limit=1)
    world.create("c")
    world.server.store.compact()

    with pytest.raises(Gone):
        await world.client.list_page(CLAIM_LEDGERS, "default", limit=1, continue_token=page.continue_token)


async def test_a_replayed_history_holds_the_watched_kind_only(world: World) -> None:
    before = str(world.server.store.revision)
    world.create("a")
    watch = world.watches.open("test", POD_KIND, "", Selectors(), before)

    assert await watch.read(1) is None
