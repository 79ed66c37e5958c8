"""Watches over the socket: order, resumption, expiry, selectors, and an informer on top of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import anyio
import msgspec
import pytest

from informers.cache.informer import SharedInformer
from informers.client.transport import KubeApi
from informers.errors import Gone
from simulation.apiserver.documents import Document
from simulation.demo.workplace import LEDGERS, Whole
from simulation.embedded.cluster import EmbeddedCluster
from tests.embedded.raw_client import LEDGERS_PATH, NAMESPACE, TABLE, RawClient, ledger

pytestmark = pytest.mark.anyio

SECONDS = 10.0


@asynccontextmanager
async def watched(
    raw: RawClient, path: str, *, accept: str = "", **query: str
) -> AsyncIterator[AsyncIterator[Document]]:
    """Yield the lines of a raw watch."""
    headers = {"Accept": accept or "application/json"}
    with anyio.fail_after(SECONDS):
        async with raw.session.get(path, params={"watch": "true", **query}, headers=headers) as response:
            assert response.status == 200

            async def lines() -> AsyncIterator[Document]:
                async for line in response.content:
                    yield msgspec.json.decode(line)

            yield lines()


async def take(lines: AsyncIterator[Document], count: int) -> list[Document]:
    return [await anext(lines) for _ in range(count)]


def summarized(lines: list[Document]) -> list[tuple[str, str]]:
    return [(line["type"], line["object"]["metadata"]["name"]) for line in lines]


async def test_changes_arrive_in_order(api: KubeApi) -> None:
    page = await api.list_page(LEDGERS, NAMESPACE)
    seen: list[tuple[str, str]] = []
    with anyio.fail_after(SECONDS):
        async with api.watch(
            LEDGERS,
            NAMESPACE,
            resource_version=page.resource_version,
            timeout_seconds=60,
            idle_seconds=SECONDS,
        ) as events:
            await api.create(LEDGERS, ledger("a"), NAMESPACE)
            await api.patch(LEDGERS, "a", {"metadata": {"labels": {"x": "y"}}}, NAMESPACE)
            await api.create(LEDGERS, ledger("b"), NAMESPACE)
            await api.delete(LEDGERS, "a", NAMESPACE)
            async for event in events:
                assert event.object is not None
                seen.append((event.type.value, event.object.metadata.name))
                if event.type.value == "DELETED":
                    break

    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_a_watch_resumes_from_the_version_of_an_earlier_one(api: KubeApi, raw: RawClient) -> None:
    first = await api.create(LEDGERS, ledger("a"), NAMESPACE)
    await api.create(LEDGERS, ledger("b"), NAMESPACE)
    await api.create(LEDGERS, ledger("c"), NAMESPACE)

    async with watched(raw, LEDGERS_PATH, resourceVersion=first.metadata.resource_version) as lines:
        assert summarized(await take(lines, 2)) == [("ADDED", "b"), ("ADDED", "c")]


async def test_a_watch_from_a_compacted_version_is_gone(cluster: EmbeddedCluster, api: KubeApi) -> None:
    old = await api.create(LEDGERS, ledger("a"), NAMESPACE)
    await api.create(LEDGERS, ledger("b"), NAMESPACE)
    cluster.server.store.compact()

    async def watch_from_there() -> None:
        async with api.watch(
            LEDGERS,
            NAMESPACE,
            resource_version=old.metadata.resource_version,
            timeout_seconds=60,
            idle_seconds=SECONDS,
        ) as events:
            await anext(events)

    with pytest.raises(Gone):
        await watch_from_there()


@pytest.fixture
def frequent_bookmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.apiserver.watches.BOOKMARK_SECONDS", 0.05)


@pytest.mark.usefixtures("frequent_bookmarks")
async def test_a_watch_ends_at_its_timeout_and_sends_no_unrequested_bookmarks(
    raw: RawClient,
) -> None:
    async with watched(raw, LEDGERS_PATH, timeoutSeconds="1") as lines:
        assert [line async for line in lines] == []


@pytest.mark.usefixtures("frequent_bookmarks")
async def test_bookmarks_carry_the_current_version(cluster: EmbeddedCluster, raw: RawClient) -> None:
    async with watched(raw, LEDGERS_PATH, allowWatchBookmarks="true") as lines:
        (bookmark,) = await take(lines, 1)

    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"] == {"resourceVersion": str(cluster.server.store.revision)}


async def test_an_object_is_added_when_it_starts_and_deleted_when_it_stops_to_match(
    api: KubeApi, raw: RawClient
) -> None:
    async with watched(raw, LEDGERS_PATH, labelSelector="tier=gold") as lines:
        await api.create(LEDGERS, ledger("a"), NAMESPACE)
        for label in ("gold", None):
            await api.patch(LEDGERS, "a", {"metadata": {"labels": {"tier": label}}}, NAMESPACE)

        assert summarized(await take(lines, 2)) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_of_one_name_shows_only_that_object(api: KubeApi, raw: RawClient) -> None:
    path = LEDGERS_PATH.replace("/v1alpha1/", "/v1alpha1/watch/")
    async with watched(raw, f"{path}/b") as lines:
        await api.create(LEDGERS, ledger("a"), NAMESPACE)
        await api.create(LEDGERS, ledger("b"), NAMESPACE)

        assert summarized(await take(lines, 1)) == [("ADDED", "b")]


async def test_a_streaming_list_ends_its_initial_events_with_a_bookmark(api: KubeApi, raw: RawClient) -> None:
    await api.create(LEDGERS, ledger("a"), NAMESPACE)
    streaming = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with watched(raw, LEDGERS_PATH, **streaming) as lines:
        added, bookmark = await take(lines, 2)
        await api.create(LEDGERS, ledger("b"), NAMESPACE)
        (live,) = await take(lines, 1)

    assert summarized([added, live]) == [("ADDED", "a"), ("ADDED", "b")]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_streaming_list_ignores_the_limit_and_honors_the_name(api: KubeApi, raw: RawClient) -> None:
    for name in ("a", "b", "c"):
        await api.create(LEDGERS, ledger(name), NAMESPACE)
    streaming = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "limit": "1"}
    path = LEDGERS_PATH.replace("/v1alpha1/", "/v1alpha1/watch/")

    async with watched(raw, LEDGERS_PATH, **streaming) as lines:
        assert summarized(await take(lines, 3)) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    async with watched(raw, f"{path}/b", **streaming) as lines:
        (named, end) = await take(lines, 2)

    assert summarized([named]) == [("ADDED", "b")]
    assert end["type"] == "BOOKMARK"


async def test_a_watch_of_tables_sends_its_columns_once(api: KubeApi, raw: RawClient) -> None:
    async with watched(raw, LEDGERS_PATH, accept=TABLE) as lines:
        await api.create(LEDGERS, ledger("a"), NAMESPACE)
        await api.create(LEDGERS, ledger("b"), NAMESPACE)
        tables = [line["object"] for line in await take(lines, 2)]

    assert [column["name"] for column in tables[0]["columnDefinitions"]] == ["Name", "Claim", "Age"]
    assert tables[1]["columnDefinitions"] is None
    assert [table["rows"][0]["cells"][:2] for table in tables] == [
        ["a", "claim-of-a"],
        ["b", "claim-of-b"],
    ]


async def test_a_disconnected_client_leaves_no_watch(cluster: EmbeddedCluster, raw: RawClient) -> None:
    async with watched(raw, LEDGERS_PATH):
        assert cluster.statistics().watches == 1

    with anyio.fail_after(SECONDS):
        while cluster.statistics().watches:
            await anyio.lowlevel.checkpoint()


async def test_an_informer_keeps_up_after_a_compaction(cluster: EmbeddedCluster, api: KubeApi) -> None:
    informer = SharedInformer(api, LEDGERS, namespace=NAMESPACE, rng=Random(0))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(informer.run)
        await informer.wait_for_sync()
        await api.create(LEDGERS, ledger("before"), NAMESPACE)
        await until_known(informer, "before")
        for watch in cluster.watches.matching():
            watch.end()  # before the compacted revision can be requested
        await api.create(LEDGERS, ledger("between"), NAMESPACE)
        cluster.server.store.compact()
        await until_known(informer, "between")
        tasks.cancel_scope.cancel()


async def until_known(informer: SharedInformer[Whole], name: str) -> None:
    with anyio.fail_after(SECONDS):
        while name not in {item.metadata.name for item in informer.store}:
            await anyio.lowlevel.checkpoint()
