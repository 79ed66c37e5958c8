"""The client of the harness and of the bare writer: keep-alive HTTP, fast JSON, nothing else.

No retries, no back-off, no caches: a request that fails ends the measurement. It stands for the least
that a client in this language can cost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec

from bench.errors import WatchEnded
from e2e.controlplane import ApiRefused, Object
from e2e.controlplane.api import MERGE_PATCH
from e2e.controlplane.kubeconfig import read_access

JSON = "application/json"
WATCH_SECONDS = 3600
"""How long a watch may last; no measurement does."""


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata` of a list."""

    resource_version: str


class Listed(msgspec.Struct, frozen=True):
    """A list of which only the version matters: to watch from."""

    metadata: ListMetadata


class Client:
    """One user at one API server; as many connections as there are requests at once."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server
        self._encode = msgspec.json.Encoder().encode

    def __repr__(self) -> str:
        return f"<Client {self._server}>"

    async def get(self, path: str) -> bytes:
        """Read one object or list."""
        return await self._send("GET", path, None, JSON)

    async def create(self, path: str, body: Object) -> bytes:
        """Create an object."""
        return await self._send("POST", path, body, JSON)

    async def patch(self, path: str, body: Object) -> bytes:
        """Apply a JSON merge patch."""
        return await self._send("PATCH", path, body, MERGE_PATCH)

    async def delete(self, path: str) -> bytes:
        """Ask for a deletion, in the background as clients do by default."""
        return await self._send("DELETE", path, None, JSON)

    async def version(self, path: str) -> str:
        """The version of a collection as it is now."""
        return msgspec.json.decode(await self.get(f"{path}?limit=1"), type=Listed).metadata.resource_version

    async def watch(self, path: str, version: str) -> AsyncIterator[bytes]:
        """Yield each event's line after that version. Raises `WatchEnded` when there will be no more."""
        query = f"?watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(self._server + path + query, timeout=timeout) as response:
            if response.status != HTTPStatus.OK:
                raise _refusal("WATCH", path, response, await response.read())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line
        raise WatchEnded(f"the watch of {path} ended")

    async def _send(self, method: str, path: str, body: Object | None, content_type: str) -> bytes:
        data = None if body is None else self._encode(body)
        headers = {"Content-Type": content_type}
        async with self._session.request(method, self._server + path, data=data, headers=headers) as response:
            payload = await response.read()
            if response.status >= HTTPStatus.BAD_REQUEST:
                raise _refusal(method, path, response, payload)
            return payload


@asynccontextmanager
async def connect(kubeconfig: Path) -> AsyncIterator[Client]:
    """Yield a client with the rights of a kubeconfig."""
    access = read_access(kubeconfig)
    headers = {"Accept": JSON, "User-Agent": "bench"}
    if access.token:
        headers["Authorization"] = f"Bearer {access.token}"
    connector = aiohttp.TCPConnector(limit=0, ssl=True if access.tls is None else access.tls)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Client(session, access.server.rstrip("/"))


def _refusal(method: str, path: str, response: aiohttp.ClientResponse, payload: bytes) -> ApiRefused:
    return ApiRefused(method, path, response.status, str(response.reason), payload.decode(errors="replace"))
