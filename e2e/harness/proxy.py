"""A TCP proxy on loopback that misbehaves on demand, as networks and load balancers do.

It forwards bytes between a controller and an API server, or between an API server and etcd. TLS is end to
end, so it cannot read them. It runs in its own thread. Every method returns when its change is in effect.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socket import SO_LINGER, SOL_SOCKET
from typing import Final

CHUNK_BYTES: Final = 65_536
CALL_SECONDS: Final = 10
LOOPBACK: Final = "127.0.0.1"


class _Link:
    """One connection through the proxy, and the bytes that may still pass."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.ends = (client, server)
        self.flowing = asyncio.Event()
        self.response_bytes_left: int | None = None

    def truncate_response(self, data: bytes) -> bytes:
        """Return the part of a response that still passes before the connection breaks."""
        if self.response_bytes_left is None:
            return data
        data = data[: self.response_bytes_left]
        self.response_bytes_left -= len(data)
        return data


class Proxy:
    """See `proxied`. `target` is the port of new connections; existing ones are not affected by a change."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.connections = 0
        """The number of accepted connections."""
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._silent = False
        self._refusing = False
        self._delay_seconds = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __repr__(self) -> str:
        return f"<Proxy {self.port} to {self.target} links={len(self._links)} silent={self._silent}>"

    def silence(self) -> None:
        """Keep all connections open, including new ones, but forward nothing."""
        self._call(self._set_silent)

    def hold(self) -> None:
        """Forward nothing more on the existing connections (half-open). New connections work."""
        self._call(self._hold)

    def cut(self, *, refuse: bool = False) -> None:
        """Reset all connections; with `refuse`, also new ones."""
        self._call(lambda: self._cut(refuse))

    def delay(self, seconds: float) -> None:
        """Delay all forwarded bytes."""
        self._call(lambda: self._set_delay(seconds))

    def truncate(self, after_bytes: int) -> None:
        """Close each existing connection after this many more response bytes."""
        self._call(lambda: self._truncate(after_bytes))

    def heal(self) -> None:
        """Work normally again, and forward the bytes held back by `silence` or `hold`."""
        self._call(self._heal)

    # Called in the thread of the event loop.

    def _set_silent(self) -> None:
        self._silent = True
        self._hold()

    def _hold(self) -> None:
        for link in self._links:
            link.flowing.clear()

    def _set_delay(self, seconds: float) -> None:
        self._delay_seconds = seconds

    def _truncate(self, after_bytes: int) -> None:
        for link in self._links:
            link.response_bytes_left = after_bytes

    def _cut(self, refuse: bool) -> None:
        self._refusing = refuse
        for link in self._links:
            for end in link.ends:
                _reset(end)

    def _heal(self) -> None:
        self._silent = self._refusing = False
        self._delay_seconds = 0.0
        for link in self._links:
            link.response_bytes_left = None
            link.flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._refusing:
            _reset(writer)
            return
        try:
            response_reader, request_writer = await asyncio.open_connection(LOOPBACK, self.target)
        except OSError:
            _reset(writer)
            return
        link = _Link(writer, request_writer)
        if not self._silent:
            link.flowing.set()
        self._links.add(link)
        pumps = [
            asyncio.create_task(self._pump(link, reader, request_writer, is_response=False)),
            asyncio.create_task(self._pump(link, response_reader, writer, is_response=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._links.discard(link)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for end in link.ends:
                end.close()

    async def _pump(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_response: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                await link.flowing.wait()
                if self._delay_seconds:
                    await asyncio.sleep(self._delay_seconds)
                writer.write(link.truncate_response(data) if is_response else data)
                await writer.drain()
                if link.response_bytes_left == 0:
                    return

    # Called from other threads.

    def start(self) -> None:
        """Start to listen."""
        self._thread.start()

        async def listen() -> asyncio.Server:
            return await asyncio.start_server(self._accept, LOOPBACK, 0)

        self._server = asyncio.run_coroutine_threadsafe(listen(), self._loop).result(CALL_SECONDS)
        self.port = int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Close all connections and end the thread."""

        async def end() -> None:
            if self._server is not None:
                self._server.close()
            self._heal()
            self._cut(refuse=True)
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(CALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()

    def _call(self, change: Callable[[], object]) -> None:
        async def run() -> None:
            change()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(CALL_SECONDS)


@contextmanager
def proxied(target: int) -> Iterator[Proxy]:
    """Run a proxy for `127.0.0.1:target` while the block runs."""
    proxy = Proxy(target)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close the connection with a TCP reset."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
