"""Watches of the simulated server: faults on command, and what a client gets."""

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


class Harness:
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
async def harness() -> Harness:
    return Harness()


async def next_name(events: Events) -> str:
    event = await anext(events)
    assert event.object is not None
    return event.object.metadata.name


async def test_a_lagging_watch_delivers_changes_late_and_in_order(harness: Harness) -> None:
    lags = iter([5.0, 1.0, 0.0])
    harness.watches.lag_seconds = lambda _client, _kind: next(lags)
    async with harness.watching() as events:
        for name in ("a", "b", "c"):
            harness.create(name)
        shown = [(await next_name(events), anyio.current_time()) for _ in range(3)]

    assert shown == [("a", 5.0), ("b", 5.0), ("c", 5.0)], "changes stay in order"


async def test_a_lag_applies_to_one_client_and_kind_only(harness: Harness) -> None:
    harness.watches.lag_seconds = lambda client, kind: 5.0 if (client, kind) == ("test", POD_KIND) else 0.0
    async with harness.watching() as events:
        harness.create("a")
        assert await next_name(events) == "a"
        assert anyio.current_time() == 0


async def test_a_quiet_watch_gets_bookmarks_with_the_server_revision(harness: Harness) -> None:
    async with harness.watching() as events:
        harness.server.create(POD_KIND, "default", {"metadata": {"name": "p"}, "spec": {"containers": [_C]}})
        event = await anext(events)

    assert event.type is WatchEventType.BOOKMARK
    assert event.resource_version == str(harness.server.store.revision)
    assert anyio.current_time() == BOOKMARK_SECONDS


_C = {"name": "c", "image": "i"}


async def test_a_silent_watch_ends_after_the_idle_timeout(harness: Harness) -> None:
    async with harness.watching() as events:
        (watch,) = harness.watches.matching("test", LEDGERS)
        watch.silence()
        harness.create("a")
        with pytest.raises(OutcomeUnknown):
            await anext(events)

    assert anyio.current_time() == 70


async def test_a_watch_closes_cleanly_at_its_timeout(harness: Harness) -> None:
    async with harness.watching(timeout_seconds=30) as events:
        assert [event async for event in events] == []

    assert anyio.current_time() == 30
    assert harness.watches.matching() == [], "the server drops it"


async def test_a_server_sends_queued_events_before_it_closes_a_watch(harness: Harness) -> None:
    async with harness.watching() as events:
        harness.create("a")
        harness.watches.matching()[0].end()
        assert [event.type for event in [e async for e in events]] == [WatchEventType.ADDED]


async def test_a_cut_watch_loses_queued_events(harness: Harness) -> None:
    async with harness.watching() as events:
        harness.create("a")
        harness.watches.matching()[0].cut()
        with pytest.raises(OutcomeUnknown):
            await anext(events)


async def test_a_compacted_version_is_gone_for_new_watches_only(harness: Harness) -> None:
    async with harness.watching() as events:
        old = str(harness.server.store.revision)
        harness.create("a")
        harness.server.store.compact()
        async with harness.client.watch(
            CLAIM_LEDGERS, "default", resource_version=old, timeout_seconds=1, idle_seconds=70
        ) as late:
            with pytest.raises(Gone):
                await anext(late)
        assert await next_name(events) == "a", "an open watch continues"


async def test_compacted_history_does_not_come_back(harness: Harness) -> None:
    store = harness.server.store
    store.compact()
    floor = store.compacted
    store.compact(floor - 1)
    assert store.compacted == floor


async def test_a_page_of_a_compacted_list_is_gone(harness: Harness) -> None:
    for name in ("a", "b"):
        harness.create(name)
    page = await harness.client.list_page(CLAIM_LEDGERS, "default", limit=1)
    harness.create("c")
    harness.server.store.compact()

    with pytest.raises(Gone):
        await harness.client.list_page(CLAIM_LEDGERS, "default", limit=1, continue_token=page.continue_token)


async def test_replayed_history_contains_only_the_watched_kind(harness: Harness) -> None:
    before = str(harness.server.store.revision)
    harness.create("a")
    watch = harness.watches.open("test", POD_KIND, "", Selectors(), before)

    assert await watch.read(1) is None
