"""The `Api` port for a real API server: requests built from a `Resource`, answers decoded for it.

`connect` finds the server and the credentials; `KubeApi` does the rest. The invariant: every call
ends within a limit and raises the classes of `informers.errors` only, and a write is sent once, so
that `OutcomeUnknown` is the whole truth about a write without an answer. After a 401 a request is
sent once more with credentials that were read again.

Nothing is retried, cached or throttled beyond that: `informers.cache.reflector` and the work queue know
when to try again.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from informers.api import Json, Page, PatchType, Preconditions, Resource, Selectors, T, WatchEvent
from informers.client.connection import (
    REFRESH_SECONDS,
    HttpRequest,
    Observer,
    RequestObservation,
    SessionManager,
    SessionStatistics,
    open_connections,
)
from informers.client.credentials import choose_source
from informers.client.decoding import decode_object, read_head
from informers.client.listing import read_page
from informers.client.request_counts import RequestCounts, RequestStatistics
from informers.client.responses import error_for_response, foreign_errors
from informers.client.watch_stream import EventDecoder, WatchCounts, events
from informers.errors import ApiError

# For each cluster a watch per kind and the writes of all workers; an election takes a pool of its own.
CONNECTIONS = 64


@dataclass(frozen=True)
class Timeouts:
    """How long things may take, in seconds.

    `request_seconds` bounds a get or a write and `list_seconds` one page of a list, from end to end: an
    API server gives up after 60 s itself, and a write that took 15 s is in trouble. `connect_seconds`
    covers the wait for a free connection, name lookup, TCP, proxy and TLS together. `refresh_seconds`
    is how old credentials from files may get, client-go's minute.
    """

    request_seconds: float = 15.0
    list_seconds: float = 60.0
    connect_seconds: float = 5.0
    refresh_seconds: float = REFRESH_SECONDS

    def __post_init__(self) -> None:
        """A connect limit at or over a request's would make a server that is down an outcome unknown."""
        if not 0 < self.connect_seconds < min(self.request_seconds, self.list_seconds):
            raise ValueError("connect_seconds must be positive and less than the limits of requests")


_LIMITS = Timeouts()
_EVERYTHING = Selectors()
_UNCHECKED = Preconditions()
_SUCCESS = 2  # the class of HTTP codes


@dataclass(frozen=True)
class TransportStatistics:
    """Counts since the start (`watch`, `requests`), the state of connections and credentials (`access`)."""

    watch: WatchCounts
    access: SessionStatistics
    requests: RequestStatistics


@asynccontextmanager
async def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    connections: int = CONNECTIONS,
    user_agent: str = "informers",
    observe: Observer | None = None,
    limits: Timeouts = _LIMITS,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[KubeApi]:
    """An API for `kubeconfig` (else `KUBECONFIG`), else in-cluster, else for the default kubeconfig.

    Sends nothing yet; `connections` bounds the requests at one time, watches included. Raises
    `ConfigurationError` with a message of one line.
    """
    source = choose_source(kubeconfig=kubeconfig, context=context, environ=environ)
    pool = await open_connections(
        source,
        connections=connections,
        user_agent=user_agent,
        refresh_seconds=limits.refresh_seconds,
    )
    try:
        yield KubeApi(pool, limits=limits, observe=observe)
    finally:
        await pool.aclose()


class KubeApi:
    """`informers.api.Api` over HTTP.

    Requests are counted in `statistics`; `observe` is called after each of them besides, and must not raise.
    """

    def __init__(
        self,
        connections: SessionManager,
        *,
        limits: Timeouts = _LIMITS,
        observe: Observer | None = None,
    ) -> None:
        self._connections = connections
        self._requests = RequestCounts()
        self._observer = observe
        self._connect_seconds = limits.connect_seconds
        self._request_timeout = self._timeout(total=limits.request_seconds)
        self._list_timeout = self._timeout(total=limits.list_seconds)
        self._watch_counts = WatchCounts()

    def __repr__(self) -> str:
        return f"<KubeApi {self.server} requests={self._connections.statistics().requests}>"

    @property
    def server(self) -> str:
        """Host and port of the server, for logs."""
        return self._connections.server

    def statistics(self) -> TransportStatistics:
        """Numbers of the moment."""
        return TransportStatistics(
            watch=WatchCounts(**vars(self._watch_counts)),
            access=self._connections.statistics(),
            requests=self._requests.statistics(),
        )

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object past every cache (a quorum read)."""
        call = self._call("GET", resource, path_of(resource, namespace, name))
        return decode_object(resource, await self._exchange(call))

    async def list_page(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selectors: Selectors = _EVERYTHING,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
        take: Callable[[T], object] | None = None,
    ) -> Page[T]:
        """Read one page. An empty `resource_version` asks for a consistent list; `limit` 0 for all of it."""
        query = _selectors(selectors) | {"limit": str(limit or ""), "continue": continue_token}
        if resource_version and not continue_token:  # the token has its version in it
            # Without the match, a limit would turn "at least" into "exactly" this version.
            query |= {"resourceVersion": resource_version, "resourceVersionMatch": "NotOlderThan"}
        path = path_of(resource, namespace)
        call = self._call("GET", resource, path, query=query, timeout=self._list_timeout)
        async with self._response(call) as response, aclosing(_pieces(response, call)) as pieces:
            return await read_page(resource, pieces, take)

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        timeout_seconds: int,
        idle_seconds: float,
        selectors: Selectors = _EVERYTHING,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        """Follow the changes after `resource_version`, bookmarks included; see `Api.watch`.

        `idle_seconds` bounds the wait for the headers, too: a proxy may hold them back until the first
        event, which a bookmark is about once a minute.
        """
        query = _selectors(selectors) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        timeout = self._timeout(idle=idle_seconds)
        # No compression: a compressing proxy holds events back to fill its blocks.
        headers = {"Accept-Encoding": "identity"}
        path = path_of(resource, namespace)
        call = self._call("GET", resource, path, query=query, headers=headers, timeout=timeout)
        async with self._response(call) as response:
            decoder = EventDecoder(resource, self._watch_counts)
            async with aclosing(events(response.content, decoder, str(call))) as stream:
                yield stream

    async def create(
        self, resource: Resource[T], body: Json, namespace: str = "", *, strict: bool = False
    ) -> T:
        """Create an object. `strict` refuses unknown and duplicate fields (`fieldValidation=Strict`)."""
        query = {"fieldValidation": "Strict" if strict else ""}
        call = self._call("POST", resource, path_of(resource, namespace), query=query, body=body)
        return decode_object(resource, await self._exchange(call))

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Json | list[Json],
        namespace: str = "",
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.MERGE,
    ) -> T:
        """Patch an object. A `metadata.resourceVersion` in a merge patch makes it conditional."""
        path = path_of(resource, namespace, name, subresource)
        headers = {"Content-Type": patch_type.value}
        call = self._call("PATCH", resource, path, body=body, headers=headers)
        return decode_object(resource, await self._exchange(call))

    async def update(
        self, resource: Resource[T], name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> T:
        """Replace an object; a stale `metadata.resourceVersion` in the body is a `Conflict`."""
        path = path_of(resource, namespace, name, subresource)
        call = self._call("PUT", resource, path, body=body)
        return decode_object(resource, await self._exchange(call))

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = _UNCHECKED,
    ) -> T | None:
        """Delete with the object's own grace period. Returns the object if it lives on for a while."""
        wanted = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        body["preconditions"] = {key: value for key, value in wanted.items() if value is not None}
        call = self._call("DELETE", resource, path_of(resource, namespace, name), body=body)
        answer = await self._exchange(call)
        return None if read_head(answer).kind == "Status" else decode_object(resource, answer)

    def _call(
        self,
        method: str,
        resource: Resource[Any],
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | list[Json] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> HttpRequest:
        encoded = None if body is None else msgspec.json.encode(body)
        content = {} if body is None else {"Content-Type": "application/json"}
        return HttpRequest(
            method=method,
            resource=str(resource),
            path=path,
            query=urlencode({key: value for key, value in (query or {}).items() if value}),
            body=encoded,
            headers={**content, **(headers or {})},
            timeout=timeout or self._request_timeout,
        )

    async def _exchange(self, call: HttpRequest) -> bytes:
        async with self._response(call) as response:
            with foreign_errors(str(call)):
                return await response.read()

    @asynccontextmanager
    async def _response(self, call: HttpRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful response, at its headers."""
        access = self._connections.current()
        for retry_refused in (True, False):
            authorization = access.material.authorization
            async with access.connection.send(call, authorization, self._observe) as response:
                if response.status // 100 == _SUCCESS:
                    yield response
                    return
                if response.status != HTTPStatus.UNAUTHORIZED or not retry_refused:
                    raise await _failure(call, response)
            access = await self._connections.renew(access)
            self._requests.retried(call.method, str(HTTPStatus.UNAUTHORIZED.value))

    def _observe(self, request: RequestObservation) -> None:
        self._requests.observe(request)
        if self._observer is not None:
            self._observer(request)

    def _timeout(self, *, total: float | None = None, idle: float | None = None) -> aiohttp.ClientTimeout:
        connect_seconds = self._connect_seconds
        return aiohttp.ClientTimeout(
            total=total, connect=connect_seconds, sock_connect=connect_seconds, sock_read=idle
        )


async def _pieces(response: aiohttp.ClientResponse, call: HttpRequest) -> AsyncGenerator[bytes, None]:
    with foreign_errors(str(call)):
        while piece := await response.content.readany():
            yield piece


def path_of(resource: Resource[Any], namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of a resource, or of one object of it, as the API server's URL scheme has it."""
    if namespace and not resource.namespaced:
        raise ValueError(f"{resource} is of cluster scope and has no namespace {namespace!r}")
    if name and resource.namespaced and not namespace:
        raise ValueError(f"{resource} {name!r} needs a namespace")
    parts = [part for part in (name, subresource) if part]
    return _collection_path(resource, namespace) + _path(parts)


@lru_cache(maxsize=256)
def _collection_path(resource: Resource[Any], namespace: str) -> str:
    """Resources and namespaces are few, and every request names one of each."""
    root = ["apis", resource.group] if resource.group else ["api"]
    scope = ["namespaces", namespace] if namespace else []
    return _path([*root, resource.version, *scope, resource.plural])


def _path(parts: list[str]) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _selectors(selectors: Selectors) -> dict[str, str]:
    return {"labelSelector": selectors.labels, "fieldSelector": selectors.fields}


async def _failure(call: HttpRequest, response: aiohttp.ClientResponse) -> ApiError:
    retry_after = response.headers.get("Retry-After")
    try:
        with foreign_errors(str(call)):
            body = await response.read()
    except ApiError:
        body = b""  # the code alone says what has to be done
    return error_for_response(str(call), response.status, retry_after, body)
