"""A small API server of many Pods: `python -m bench.informers.server PODS` prints its port and serves.

It answers lists, paged or whole, and keeps watches open. All Pods are encoded in advance, so the server costs
a reader almost nothing. `/control/...` triggers what a measurement needs: changes without events, expired
watches, bursts of events. Resources other than Pods and nodes are empty.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, urlsplit

from bench.informers.pods import PODS_PER_NODE, node, pod

PODS_PATH, NODES_PATH = "/api/v1/pods", "/api/v1/nodes"
EVENTS_AT_ONCE = 64
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EXPIRED = {
    "type": "ERROR",
    "object": {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"},
}

Query = Mapping[str, str]


class PodServer:
    """The Pods and their watchers."""

    def __init__(self, pods: int) -> None:
        self.version = pods + 1
        self.pods = [pod(number, number + 1) for number in range(pods)]
        self.nodes = [node(number) for number in range(0, pods, PODS_PER_NODE)]
        self.lists = 0
        self.watches = 0
        self._watchers: set[asyncio.StreamWriter] = set()

    def __repr__(self) -> str:
        return f"<PodServer pods={len(self.pods)} version={self.version} watchers={len(self._watchers)}>"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection sequentially."""
        try:
            while line := await reader.readline():
                _, target, _ = line.decode().split(" ", 2)
                while (await reader.readline()).strip():
                    pass
                parts = urlsplit(target)
                query = dict(parse_qsl(parts.query))
                if query.get("watch") == "true":
                    await self._watch(reader, writer, parts.path)
                    return
                await self._answer(writer, parts.path, query)
        except ConnectionError:
            pass  # The reader closed the connection.
        finally:
            self._watchers.discard(writer)
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, path: str, query: Query) -> None:
        if path.startswith("/control/"):
            await self._control(path.removeprefix("/control/"), query)
            await self._send(writer, [json.dumps({"lists": self.lists, "watches": self.watches}).encode()])
        elif path == PODS_PATH:
            await self._list(writer, self.pods, query)
            self.lists += 1
        else:
            await self._list(writer, self.nodes if path == NODES_PATH else [], query)

    async def _list(self, writer: asyncio.StreamWriter, items: list[bytes], query: Query) -> None:
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "0")) or len(items)
        end = min(start + limit, len(items))
        metadata = {"resourceVersion": str(self.version)}
        if end < len(items):
            metadata["continue"] = str(end)
        head = b'{"kind":"List","apiVersion":"v1","metadata":' + json.dumps(metadata).encode() + b',"items":['
        groups = (items[at : min(at + 500, end)] for at in range(start, end, 500))
        body = [head]
        for group in groups:
            body.append((b"," if len(body) > 1 else b"") + b",".join(group))
        await self._send(writer, [*body, b"]}\n"])

    async def _send(self, writer: asyncio.StreamWriter, body: list[bytes]) -> None:
        length = sum(map(len, body))
        writer.write(OK + f"Content-Length: {length}\r\n\r\n".encode())
        for piece in body:
            writer.write(piece)
            await writer.drain()

    async def _watch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        if path == PODS_PATH:
            self._watchers.add(writer)
            self.watches += 1
        await reader.read()  # Returns when the reader closes the connection.

    async def _control(self, action: str, query: Query) -> None:
        match action:
            case "expire":
                await self._broadcast([json.dumps(EXPIRED).encode()])
                for writer in self._watchers:
                    writer.write(b"0\r\n\r\n")
                    writer.close()
                self._watchers.clear()
            case "change":
                self._change(float(query["share"]))
            case "events":
                await self._burst(int(query["count"]))
            case _:
                pass  # The response has the counts.

    def _change(self, share: float) -> None:
        """Change this share of the Pods, spread evenly, and replace half as many Pods with new ones."""
        step = round(1 / share)
        for index in range(0, len(self.pods), step):
            self.version += 1
            self.pods[index] = pod(index, self.version)
        deleted = self.pods[1 :: 2 * step]
        del self.pods[1 :: 2 * step]
        for number in range(len(deleted)):
            self.version += 1
            self.pods.append(pod(0x80000 + self.version + number, self.version))

    async def _burst(self, count: int) -> None:
        events = []
        for number in range(count):
            self.version += 1
            index = number % len(self.pods)
            self.pods[index] = pod(index, self.version)
            events.append(b'{"type":"MODIFIED","object":' + self.pods[index] + b"}")
        await self._broadcast(events)

    async def _broadcast(self, events: list[bytes]) -> None:
        for start in range(0, len(events), EVENTS_AT_ONCE):
            text = b"".join(event + b"\n" for event in events[start : start + EVENTS_AT_ONCE])
            for writer in tuple(self._watchers):
                writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
                await writer.drain()


async def main(arguments: Iterable[str]) -> None:
    """Serve until killed."""
    (pods,) = arguments
    server = PodServer(int(pods))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - the parent process reads this
    async with listener:
        await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
