"""A write that waited for its connection is not sent if it is no longer allowed."""

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


async def test_a_write_that_waited_for_a_connection_is_checked_again(
    connect_to: Connect, server: ScriptedServer
) -> None:
    """The only connection is busy when the write is made; the lease is lost before it becomes free."""
    requested, answer = anyio.Event(), anyio.Event()

    async def answer_later(request: web.Request) -> web.StreamResponse:
        requested.set()
        await answer.wait()
        return await reply(thing())(request)

    server.answers(answer_later, reply(thing()))
    leading, withheld = True, False
    async with connect_to(server.url, connections=1) as api, anyio.create_task_group() as tasks:
        guarded = GuardedApi(cast("Api", api), lambda: leading)
        tasks.start_soon(guarded.get, THINGS, "a", "ns")
        await requested.wait()

        async def write() -> None:
            nonlocal withheld
            with pytest.raises(NotLeading):
                await guarded.patch(THINGS, "a", {}, "ns")
            withheld = True

        tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        leading = False
        answer.set()
    assert withheld
    assert [request.method for request in server.received] == ["GET"]
    assert guarded.statistics() == 1


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the body is written in the step that connects")
async def test_a_write_is_checked_again_in_the_step_that_sends_it(
    connect_to: Connect, server: ScriptedServer
) -> None:
    """The connection is available at once; a task that runs before the body's task loses the lease."""
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
    assert caught.value.__cause__ is None, "the error is not its own cause"
    assert len(server.received) == 1


async def test_a_withheld_write_returns_its_connection_to_the_pool(
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


async def test_requests_without_a_write_check_are_always_sent(
    connect_to: Connect, server: ScriptedServer
) -> None:
    server.answers(reply(thing()))
    async with connect_to(server.url) as api:
        await api.patch(THINGS, "a", {}, "ns")
        await GuardedApi(cast("Api", api), lambda: False, unguarded=(THINGS,)).patch(THINGS, "a", {}, "ns")
    assert len(server.received) == 2
