"""A scripted API server on loopback, over real sockets."""

from __future__ import annotations

import asyncio
import json
import ssl
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    header_items: list[tuple[str, str]] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ScriptedServer:
    """Sends the scripted answers in order and repeats the last one."""

    url: str = ""
    script: deque[Answer] = field(default_factory=deque)
    received: list[Received] = field(default_factory=list)
    connections: set[int] = field(default_factory=set)

    def answers(self, *answers: Answer) -> None:
        self.script = deque(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.connections.add(id(request.transport))
        body = await request.read()
        self.received.append(
            Received(
                request.method,
                request.raw_path.partition("?")[0],
                dict(request.query),
                dict(request.headers),
                body,
                list(request.headers.items()),
            )
        )
        answer = self.script.popleft() if len(self.script) > 1 else self.script[0]
        return await answer(request)


@asynccontextmanager
async def serve(tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer()
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    host, port = runner.addresses[0]
    server.url = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_raw(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server below the HTTP level, for broken connections. Yields its URL."""
    stop = asyncio.Event()
    open_tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_tasks.add(task)
        talking = asyncio.ensure_future(talk(reader, writer))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait([talking, stopping], return_when=asyncio.FIRST_COMPLETED)
        talking.cancel()
        stopping.cancel()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        stop.set()
        server.close()
        await server.wait_closed()
        await asyncio.gather(*open_tasks)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request with its body; empty if the client closed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))
    return head


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with a TCP reset."""
    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def reply(
    body: object,
    code: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
) -> Answer:
    """One complete answer; a `bytes` body is sent unchanged."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=data, status=code, headers=headers, content_type=content_type)

    return answer


def status(code: int, reason: str = "", message: str = "", **details: object) -> dict[str, object]:
    """A `Status` object as an API server sends it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
        "details": details,
    }


def failure(code: int, reason: str = "", message: str = "", **details: object) -> Answer:
    return reply(status(code, reason, message, **details), code)


def stream(*chunks: bytes, then: Callable[[], Awaitable[object]] | None = None) -> Answer:
    """The answer to a watch: headers, then each of `chunks`. `then` runs before it ends."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then is not None:
            await then()
        await response.write_eof()
        return response

    return answer


async def forever() -> None:
    """Wait until the client disconnects."""
    await asyncio.Event().wait()


async def silence(_: web.Request) -> web.StreamResponse:
    """Never send headers."""
    await forever()
    raise AssertionError
