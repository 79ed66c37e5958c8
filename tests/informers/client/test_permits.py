"""A write that waited for its connection is not sent if it is not allowed any more by then."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import anyio
import pytest
from aiohttp import web

from informers.api import Api
from informers.client.write_guard import GuardedApi
from informers.errors import NotLeading
from tests.informers.client.conftest import Connect
from tests.informers.client.objects import THINGS, thing
from tests.informers.client.server import ScriptedServer, reply

pytestmark = pytest.mark.anyio


async def test_a_write_that_waited_for_a_connection_asks_again(
    connect_to: Connect, server: ScriptedServer
) -> None:
    """The only connection is busy when the write is made, and the lease is lost before it is free."""
    asked, answer = anyio.Event(), anyio.Event()

    async def slowly(request: web.Request) -> web.StreamResponse:
        asked.set()
        await answer.wait()
        return await reply(thing())(request)

    server.answers(slowly, reply(thing()))
    leading, refused = True, False
    async with connect_to(server.url, connections=1) as api, anyio.create_task_group() as tasks:
        guarded = GuardedApi(cast("Api", api), lambda: leading)
        tasks.start_soon(guarded.get, THINGS, "a", "ns")
        await asked.wait()

        async def write() -> None:
            nonlocal refused
            with pytest.raises(NotLeading):
                await guarded.patch(THINGS, "a", {}, "ns")
            refused = True

        tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        leading = False
        answer.set()
    assert refused
    assert [request.method for request in server.received] == ["GET"]
    assert guarded.statistics() == 1


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the body is written in the step that connects")
async def test_a_write_asks_again_in_the_step_that_sends_it(
    connect_to: Connect, server: ScriptedServer
) -> None:
    """The connection is there at once, and the lease is lost by what is ready before the body's task."""
    server.answers(reply(thing()))
    leading = True

    def lose() -> None:
        nonlocal leading
        leading = False

    async with connect_to(server.url, connections=1) as api:
        guarded = GuardedApi(cast("Api", api), lambda: leading)
        await guarded.patch(THINGS, "a", {}, "ns")  # opens the connection
        writing = asyncio.create_task(guarded.patch(THINGS, "a", {}, "ns"))
        asyncio.get_running_loop().call_soon(lose)
        with pytest.raises(NotLeading) as caught:
            await writing
    assert caught.value.__cause__ is None, "a cause of its own cause"
    assert len(server.received) == 1


async def test_a_write_that_was_kept_back_leaves_room_for_the_next_request(
    connect_to: Connect, server: ScriptedServer
) -> None:
    server.answers(reply(thing()))
    answers = iter([True, False, True, True])
    async with connect_to(server.url, connections=1) as api:
        guarded = GuardedApi(cast("Api", api), lambda: next(answers))
        with pytest.raises(NotLeading):
            await guarded.patch(THINGS, "a", {}, "ns")
        await guarded.patch(THINGS, "a", {}, "ns")
    assert [request.method for request in server.received] == ["PATCH"]


async def test_requests_without_a_permit_are_sent_as_they_are(
    connect_to: Connect, server: ScriptedServer
) -> None:
    server.answers(reply(thing()))
    async with connect_to(server.url) as api:
        await api.patch(THINGS, "a", {}, "ns")
        await GuardedApi(cast("Api", api), lambda: False, free=(THINGS,)).patch(THINGS, "a", {}, "ns")
    assert len(server.received) == 2
