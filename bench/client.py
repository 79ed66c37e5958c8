"""The HTTP client of the benchmark and of the bare writer, with only keep-alive connections and fast JSON.

It has no retries, back-off or caches. A failed request ends the measurement. It represents the minimum cost
of a client in Python.
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
"""Timeout of a watch, longer than any measurement."""


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata` of a list."""

    resource_version: str


class Listed(msgspec.Struct, frozen=True):
    """The version of a list, from which a watch can start."""

    metadata: ListMetadata


class Client:
    """A client for one user and one API server, with one connection per concurrent request."""

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
        """Request a deletion with background propagation, the default of clients."""
        return await self._send("DELETE", path, None, JSON)

    async def version(self, path: str) -> str:
        """Return the current version of a collection."""
        return msgspec.json.decode(await self.get(f"{path}?limit=1"), type=Listed).metadata.resource_version

    async def watch(self, path: str, version: str) -> AsyncIterator[bytes]:
        """Yield the line of each event after this version. Raises `WatchEnded` at the end of the watch."""
        query = f"?watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(self._server + path + query, timeout=timeout) as response:
            if response.status != HTTPStatus.OK:
                raise _refusal("WATCH", path, response, await response.read())
            partial_line = b""
            async for chunk in response.content.iter_any():
                *lines, partial_line = (partial_line + chunk).split(b"\n")
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
    """Yield a client with the permissions of a kubeconfig."""
    access = read_access(kubeconfig)
    headers = {"Accept": JSON, "User-Agent": "bench"}
    if access.token:
        headers["Authorization"] = f"Bearer {access.token}"
    connector = aiohttp.TCPConnector(limit=0, ssl=True if access.tls is None else access.tls)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Client(session, access.server.rstrip("/"))


def _refusal(method: str, path: str, response: aiohttp.ClientResponse, payload: bytes) -> ApiRefused:
    return ApiRefused(method, path, response.status, str(response.reason), payload.decode(errors="replace"))
