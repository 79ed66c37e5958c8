"""Watches over real sockets: delivery, errors and interruptions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from informers.api import Selectors, WatchEvent, WatchEventType
from informers.client.transport import KubeApi
from informers.client.watch_stream import EVENTS_PER_TURN, MAX_EVENT_BYTES
from informers.errors import (
    ApiError,
    Forbidden,
    Gone,
    OutcomeUnknown,
    ServerError,
    TooLargeResourceVersion,
    TooManyRequests,
    Undecodable,
    Unreachable,
)
from tests.informers.client.conftest import Connect
from tests.informers.client.objects import THINGS, Thing, added, bookmark, event, thing
from tests.informers.client.server import (
    ScriptedServer,
    failure,
    forever,
    read_request,
    reply,
    reset,
    serve_raw,
    silence,
    status,
    stream,
)

pytestmark = pytest.mark.anyio

HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PATIENT_SECONDS = 30.0


def watch(
    api: KubeApi, idle_seconds: float = PATIENT_SECONDS
) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Thing]]]:
    return api.watch(THINGS, resource_version="5", timeout_seconds=300, idle_seconds=idle_seconds)


async def collect(
    api: KubeApi, into: list[WatchEvent[Thing]] | None = None, idle_seconds: float = PATIENT_SECONDS
) -> list[WatchEvent[Thing]]:
    seen = [] if into is None else into
    async with watch(api, idle_seconds) as events:
        async for each in events:
            seen.append(each)
    return seen


def names(events: list[WatchEvent[Thing]]) -> list[str]:
    return [each.object.metadata.name for each in events if each.object is not None]


async def test_w1_w10_a_watch_requests_a_timeout_and_bookmarks(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(stream())
    async with api.watch(
        THINGS,
        "ns",
        resource_version="5",
        timeout_seconds=321,
        idle_seconds=PATIENT_SECONDS,
        selectors=Selectors(labels="a=b"),
    ):
        pass
    (request,) = server.received
    assert request.path == "/apis/example.io/v1/namespaces/ns/things"
    assert request.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "321",
        "labelSelector": "a=b",
    }
    assert request.headers["Accept-Encoding"] == "identity"


async def test_w4_events_arrive_in_order_and_a_clean_close_ends_the_iterator(
    api: KubeApi, server: ScriptedServer
) -> None:
    server.answers(
        stream(
            added("a", version=6),
            event("MODIFIED", thing("a", version=7, size=2)),
            event("DELETED", thing("a", version=8)),
        )
    )
    seen = await collect(api)
    assert [(each.type, each.resource_version) for each in seen] == [
        (WatchEventType.ADDED, "6"),
        (WatchEventType.MODIFIED, "7"),
        (WatchEventType.DELETED, "8"),
    ]
    assert [each.object.spec.size for each in seen if each.object] == [1, 2, 1]


async def test_w10_a_bookmark_has_a_version_and_no_object(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(stream(bookmark(99)))
    assert await collect(api) == [WatchEvent(WatchEventType.BOOKMARK, "99")]


async def test_w2_a_silent_watch_ends_within_the_idle_timeout(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(stream(added(version=6), then=forever))
    seen: list[WatchEvent[Thing]] = []
    with anyio.fail_after(10), pytest.raises(OutcomeUnknown):
        await collect(api, seen, idle_seconds=0.2)
    assert names(seen) == ["a"]


async def test_w3_a_watch_without_headers_ends_within_the_idle_timeout(
    api: KubeApi, server: ScriptedServer
) -> None:
    server.answers(silence)
    with anyio.fail_after(10), pytest.raises(OutcomeUnknown):
        await collect(api, idle_seconds=0.2)


async def test_the_timeout_of_other_requests_does_not_end_a_watch(
    connect_briefly: Connect, server: ScriptedServer
) -> None:
    async def outlast() -> None:
        await asyncio.sleep(limit_seconds)

    limit_seconds = 0.5  # more than the 0.3 s of `connect_briefly`
    server.answers(stream(added("a"), added("b"), then=outlast))
    async with connect_briefly(server.url) as api:
        assert names(await collect(api)) == ["a", "b"]


async def test_w6_a_broken_connection_is_an_unknown_outcome_after_the_received_events(
    connect_to: Connect,
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        line = added(version=6)
        writer.write(HEADERS + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(line), line))
        await writer.drain()
        await delivered.wait()
        reset(writer)

    async with serve_raw(talk) as url, connect_to(url) as api:
        delivered = asyncio.Event()

        async def follow() -> None:
            async with watch(api) as events:
                async for each in events:
                    assert each.resource_version == "6"
                    delivered.set()

        with pytest.raises(OutcomeUnknown):
            await follow()


async def test_w6_refused_connections_and_errors_at_the_start_of_a_watch(
    api: KubeApi, server: ScriptedServer, connect_to: Connect
) -> None:
    for answer, expected in (
        (failure(429), TooManyRequests),
        (failure(503), ServerError),
        (failure(403), Forbidden),
    ):
        server.answers(answer)
        with pytest.raises(expected):
            await collect(api)
    async with serve_raw(lambda _, writer: _close(writer)) as url:
        pass
    async with connect_to(url) as nowhere:
        with pytest.raises(Unreachable):
            await collect(nowhere)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize("reason", ["Expired", "Gone"])
async def test_w8_gone_in_all_its_forms(api: KubeApi, server: ScriptedServer, reason: str) -> None:
    gone = status(410, reason, "too old resource version: 5 (9)")
    for answer in (failure(410, reason), stream(event("ERROR", gone)), reply(gone)):
        server.answers(answer)
        with pytest.raises(Gone):
            await collect(api)


@pytest.mark.parametrize("code", [400, 403, 500, 504])
async def test_w9_an_error_event_is_raised_as_its_error(
    api: KubeApi, server: ScriptedServer, code: int
) -> None:
    server.answers(stream(added("a"), event("ERROR", status(code, "", "why")), added("b")))
    seen: list[WatchEvent[Thing]] = []
    with pytest.raises(ApiError, match="why") as caught:
        await collect(api, seen)
    assert caught.value.status == code
    assert names(seen) == ["a"]


async def test_w9_an_error_event_without_a_status_is_a_server_error(
    api: KubeApi, server: ScriptedServer
) -> None:
    server.answers(stream(event("ERROR", {"strange": True})))
    with pytest.raises(ServerError):
        await collect(api)


async def test_l4_a_too_large_version_in_an_error_event(api: KubeApi, server: ScriptedServer) -> None:
    too_large = status(504, "Timeout", "late", causes=[{"reason": "ResourceVersionTooLarge"}])
    server.answers(stream(event("ERROR", too_large)))
    with pytest.raises(TooLargeResourceVersion):
        await collect(api)


async def test_w11_an_unreadable_object_is_named_and_the_next_event_delivered(
    api: KubeApi, server: ScriptedServer
) -> None:
    server.answers(stream(added("bad", version=6, size="huge") + added("good", version=7)))
    bad, good = await collect(api)
    assert bad.object is None
    assert bad.unreadable is not None
    assert (bad.unreadable.name, bad.unreadable.namespace, bad.unreadable.uid) == ("bad", "ns", "uid-bad")
    assert (bad.resource_version, good.resource_version) == ("6", "7")
    assert api.statistics().watch.unreadable == 1


async def test_w13_an_event_of_8_mib_passes(api: KubeApi, server: ScriptedServer) -> None:
    big = added("big", text="x" * 2**23)
    server.answers(stream(added("a"), big, added("b")))
    assert names(await collect(api)) == ["a", "big", "b"]


async def test_w13_an_event_over_the_limit_ends_the_watch_and_the_error_names_the_limit(
    api: KubeApi, server: ScriptedServer
) -> None:
    server.answers(stream(added("a"), added("big", text="x" * MAX_EVENT_BYTES), added("b")))
    seen: list[WatchEvent[Thing]] = []
    with pytest.raises(Undecodable, match=f"limit of {MAX_EVENT_BYTES} bytes"):
        await collect(api, seen)
    assert names(seen) == ["a"]


async def test_w14_unknown_types_and_wrong_kinds_are_skipped(
    api: KubeApi, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers(
        stream(
            event("RENAMED", thing("x")),
            event("ADDED", {"kind": "Table", "metadata": {"resourceVersion": "9"}, "rows": []}),
            event("MODIFIED", status(200)),
            added("a"),
        )
    )
    assert names(await collect(api)) == ["a"]
    assert api.statistics().watch.skipped == 3
    assert [vars(record)["reason"] for record in caplog.records] == [
        "unknown type 'RENAMED'",
        "kind 'Table' instead of 'Thing'",
        "kind 'Status' instead of 'Thing'",
    ]


@pytest.mark.parametrize("line", [b"not json\n", b'{"kind":"Other"}\n', b'{"type":"ADDED","object":{}}\n'])
async def test_a_line_that_may_hide_a_change_ends_the_watch(
    api: KubeApi, server: ScriptedServer, line: bytes
) -> None:
    server.answers(stream(added("a"), line, added("b")))
    with pytest.raises(Undecodable):
        await collect(api)


async def test_w15_a_401_at_the_start_is_retried_once(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(failure(401), stream(added("a")))
    assert names(await collect(api)) == ["a"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_w18_events_do_not_depend_on_chunk_boundaries(
    api: KubeApi, server: ScriptedServer, size: int
) -> None:
    text = added("a", text="żółć 😀") + b"\r\n" + added("b") + added("c", text="\\n").rstrip(b"\n")
    server.answers(stream(*(text[start : start + size] for start in range(0, len(text), size))))
    seen = await collect(api)
    assert names(seen) == ["a", "b", "c"]
    assert seen[0].object is not None
    assert seen[0].object.spec.text == "żółć 😀"


async def test_w18_an_end_in_the_middle_of_an_event_is_an_unknown_outcome(connect_to: Connect) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEADERS + b"Connection: close\r\n\r\n" + added("a") + added("b")[:50])
        await writer.drain()

    async with serve_raw(talk) as url, connect_to(url) as api:
        seen: list[WatchEvent[Thing]] = []
        with pytest.raises(OutcomeUnknown, match="middle of an event"):
            await collect(api, seen)
        assert names(seen) == ["a"]


async def test_a7_leaving_a_watch_closes_its_connection(api: KubeApi, server: ScriptedServer) -> None:
    closed = asyncio.Event()

    async def until_closed() -> None:
        try:
            await forever()
        finally:
            closed.set()

    server.answers(stream(added("a"), added("b"), then=until_closed))
    async with watch(api) as events:
        async for _ in events:
            break
        assert api.statistics().session.requests == 1
    assert api.statistics().session.requests == 0
    with anyio.fail_after(10):
        await closed.wait()


async def test_an_exception_raised_inside_a_watch_passes_unchanged(
    api: KubeApi, server: ScriptedServer
) -> None:
    server.answers(stream(added("a"), then=forever))

    async def follow() -> None:
        async with watch(api) as events:
            async for _ in events:
                raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await follow()


async def test_a_slow_reader_does_not_count_as_a_silent_server(api: KubeApi, server: ScriptedServer) -> None:
    idle_seconds = 0.2
    server.answers(stream(*(added(f"t{number}", text="x" * 100_000) for number in range(100))))
    count = 0
    async with watch(api, idle_seconds) as events:
        async for _ in events:
            count += 1
            if count == 1:
                await anyio.sleep(2 * idle_seconds)
    assert count == 100


async def test_l17_other_tasks_run_during_a_burst_of_events(api: KubeApi, server: ScriptedServer) -> None:
    total = 10 * EVENTS_PER_TURN
    server.answers(stream(b"".join(added(f"t{number}") for number in range(total))))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        async with watch(api) as events:
            seen_at = [turns async for _ in events]
        tasks.cancel_scope.cancel()
    assert len(seen_at) == total
    assert max(Counter(seen_at).values()) <= EVENTS_PER_TURN


async def test_a6_more_watches_than_the_clients_default_pool(
    connect_to: Connect, server: ScriptedServer
) -> None:
    server.answers(stream(added("a"), then=forever))
    async with connect_to(server.url, connections=130) as api, anyio.create_task_group() as tasks:
        started = 0
        all_started = anyio.Event()

        async def follow() -> None:
            nonlocal started
            async with watch(api) as events:
                await anext(events)
                started += 1
                if started == 120:
                    all_started.set()
                await forever()

        for _ in range(120):
            tasks.start_soon(follow)
        with anyio.fail_after(20):
            await all_started.wait()
        server.answers(reply(thing("a")))
        await api.get(THINGS, "a", "ns")
        tasks.cancel_scope.cancel()
