"""Counts behind the `rest_client_*` metrics: requests with their responses."""

from __future__ import annotations

import asyncio

import pytest

from informers.client.transport import KubeApi
from informers.errors import ApiError
from tests.informers.client.conftest import Connect
from tests.informers.client.objects import THINGS, added, thing
from tests.informers.client.server import (
    ScriptedServer,
    failure,
    read_request,
    reply,
    reset,
    serve_raw,
    stream,
)

pytestmark = pytest.mark.anyio


async def test_requests_are_counted_by_method_and_code_and_a_watch_once(
    api: KubeApi, server: ScriptedServer
) -> None:
    server.answers(reply(thing()))
    await api.get(THINGS, "a", "ns")
    server.answers(failure(409))
    with pytest.raises(ApiError):
        await api.create(THINGS, {}, "ns")
    server.answers(stream(added("a"), added("b")))
    async with api.watch(THINGS, resource_version="1", timeout_seconds=60, idle_seconds=5) as events:
        assert len([event async for event in events]) == 2

    counts = api.statistics().requests
    assert counts.requests_total == {("GET", "200"): 2, ("POST", "409"): 1}
    assert {method: seen.count for method, seen in counts.seconds.items()} == {"GET": 2, "POST": 1}
    assert counts.retries_total == {}


async def test_a_request_repeated_after_a_401_counts_twice_and_as_a_retry(
    api: KubeApi, server: ScriptedServer
) -> None:
    server.answers(failure(401, "Unauthorized"), reply(thing()))
    await api.create(THINGS, {}, "ns")

    counts = api.statistics().requests
    assert counts.requests_total == {("POST", "401"): 1, ("POST", "200"): 1}
    assert counts.retries_total == {("POST", "401"): 1}


async def test_a_request_without_a_response_has_its_own_code(connect_to: Connect) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        reset(writer)

    async with serve_raw(talk) as url, connect_to(url) as api:
        with pytest.raises(ApiError):
            await api.create(THINGS, {}, "ns")

        assert api.statistics().requests.requests_total == {("POST", "<error>"): 1}
