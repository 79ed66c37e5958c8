"""Connections broken at any moment, as by a load balancer whose server restarts."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import anyio
import pytest
from aiohttp import web
from anyio.from_thread import start_blocking_portal

from informers.client.sockets import UnownedSocket
from informers.client.transport import KubeApi, connect
from informers.errors import ApiError
from tests.informers.client.certificates import make_authority
from tests.informers.client.conftest import kubeconfig
from tests.informers.client.objects import THINGS, added, thing
from tests.informers.client.server import forever, reply, reset, serve, serve_raw, stream

pytestmark = pytest.mark.anyio

BREAKS, PHASE_SECONDS = 12, 0.15
WATCHES, READERS = 7, 4


class BadLoadBalancer:
    """Forwards connections to a port, or resets all existing and new ones."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._broken = False
        self._clients: set[asyncio.StreamWriter] = set()

    def toggle(self) -> None:
        self._broken = not self._broken
        for client in self._clients:
            reset(client)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._broken:
            reset(writer)
            return
        answers, requests = await asyncio.open_connection("127.0.0.1", self._port)
        self._clients.add(writer)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_pump, reader, requests)
                await _pump(answers, writer)
                tasks.cancel_scope.cancel()
        finally:
            self._clients.discard(writer)
            requests.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    reset(writer)


async def serve_things(request: web.Request) -> web.StreamResponse:
    if "watch" in request.query:
        return await stream(added("a"), then=forever)(request)
    return await reply(thing())(request)


class Traffic:
    """Watches and reads that continue after errors, and a count of the results."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._rng = Random(1)
        self.seen: Counter[str] = Counter()

    async def repeat(self, request: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await request()
            except ApiError as error:
                self.seen[type(error).__name__] += 1
                await anyio.sleep(0.02 * self._rng.random())

    async def watch(self) -> None:
        async with self._api.watch(
            THINGS, resource_version="5", timeout_seconds=300, idle_seconds=30
        ) as events:
            async for _ in events:
                self.seen["event"] += 1

    async def read(self) -> None:
        await self._api.get(THINGS, "a", "ns")
        self.seen["read"] += 1


async def test_w6_connections_broken_during_the_handshake_affect_no_other_connection(tmp_path: Path) -> None:
    authority = make_authority(tmp_path / "authority")
    cluster = {"certificate-authority": str(authority.ca)}
    async with serve(authority.server()) as server:
        server.answers(serve_things)
        balancer = BadLoadBalancer(int(server.url.rpartition(":")[2]))
        # In a separate thread, like a real peer: both sides of a connection never pause at the same time.
        with (
            start_blocking_portal() as outside,
            outside.wrap_async_context_manager(serve_raw(balancer.talk)) as url,
        ):
            file = kubeconfig(tmp_path / "config", url.replace("http:", "https:"), cluster=cluster)
            async with connect(kubeconfig=str(file)) as api, anyio.create_task_group() as tasks:
                traffic = Traffic(api)
                for request in (traffic.watch,) * WATCHES + (traffic.read,) * READERS:
                    tasks.start_soon(traffic.repeat, request)
                for _ in range(2 * BREAKS):
                    await anyio.sleep(PHASE_SECONDS)
                    outside.call(balancer.toggle)
                before = traffic.seen["event"]
                with anyio.fail_after(20):
                    while traffic.seen["event"] < before + WATCHES:  # noqa: ASYNC110 - counted in many places
                        await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
    assert traffic.seen["read"]
    assert set(traffic.seen) <= {"event", "read", "Unreachable", "OutcomeUnknown"}


def test_w6_an_unowned_socket_closes_only_on_request() -> None:
    unowned = UnownedSocket(socket.AF_INET, socket.SOCK_STREAM)
    descriptor = unowned.fileno()
    del unowned
    gc.collect()
    os.close(descriptor)  # still open, so closing it succeeds
    closed = UnownedSocket(socket.AF_INET, socket.SOCK_STREAM)
    descriptor = closed.fileno()
    closed.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
