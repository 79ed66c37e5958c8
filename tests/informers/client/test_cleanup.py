"""Dead sockets are detected, and a stopped informer leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from pathlib import Path
from random import Random

import anyio
import pytest

from informers.cache.informer import SharedInformer
from tests.informers.client.conftest import Connect
from tests.informers.client.objects import THINGS, Thing, added, listing, thing
from tests.informers.client.server import ScriptedServer, forever, reply, stream

pytestmark = pytest.mark.anyio


def sockets() -> set[str]:
    """The open sockets of this process, by inode."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue  # the one that read the folder
        if target.startswith("socket:"):
            found.add(target)
    return found


async def test_x3_a_stopped_informer_leaves_no_task_no_socket_and_no_unhandled_exception(
    connect_to: Connect, server: ScriptedServer
) -> None:
    loop = asyncio.get_running_loop()
    unhandled: list[object] = []
    loop.set_debug(True)
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    server.answers(reply(listing(thing("a"))), stream(added("b", version=10), then=forever))
    tasks_before, sockets_before = asyncio.all_tasks(), sockets()
    try:
        async with connect_to(server.url) as api, anyio.create_task_group() as tasks:
            second_arrived = anyio.Event()
            seen: list[tuple[object, object]] = []

            def change(old: Thing | None, new: Thing | None) -> None:
                seen.append((old, new))
                if len(seen) == 2:
                    second_arrived.set()

            informer = SharedInformer(api, THINGS, rng=Random(0))
            informer.on_change(change)
            tasks.start_soon(informer.run)
            with anyio.fail_after(20):
                await second_arrived.wait()
            assert sockets() - sockets_before
            tasks.cancel_scope.cancel()
        gc.collect()
        with anyio.fail_after(20):
            # The server's end of the connection and its task are in this process too, and end next.
            while asyncio.all_tasks() - tasks_before or sockets() - sockets_before:  # noqa: ASYNC110
                await anyio.sleep(0.01)
    finally:
        loop.set_debug(False)
        loop.set_exception_handler(None)
    assert unhandled == []


async def test_a5_a_vanished_peer_is_detected_by_keep_alive(
    connect_to: Connect, server: ScriptedServer
) -> None:
    server.answers(stream(added("a"), then=forever))
    before = sockets()
    async with (
        connect_to(server.url) as api,
        api.watch(THINGS, resource_version="1", timeout_seconds=300, idle_seconds=30) as events,
    ):
        await anext(events)
        port = int(server.url.rpartition(":")[2])
        assert keep_alive_options(sockets() - before, port) == [True]


def keep_alive_options(inodes: set[str], peer_port: int) -> list[bool]:
    """Return whether keep-alive is on, for each of these sockets that is connected to this port."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            if str(descriptor.readlink()) not in inodes:
                continue
            with socket.socket(fileno=os.dup(int(descriptor.name))) as copy:
                if copy.getpeername()[1] == peer_port:
                    found.append(bool(copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)))
        except OSError:
            continue  # gone, or not connected
    return found
