"""The `Api` port over HTTP: builds requests from a `Resource` and decodes the responses.

`connect` finds server and credentials; `KubeApi` does the rest. Invariant: every call ends within its timeout
and raises only the classes of `informers.errors`. A write is sent at most once, so `OutcomeUnknown` is exact
for a write without a response; only a 401 is retried, once, with credentials that were read again.

Not done here: other retries, caching and throttling, which belong to the reflector and the work queue.
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
from informers.client.connection import HttpRequest, SessionManager, SessionStatistics, open_sessions
from informers.client.credentials import choose_source
from informers.client.decoding import decode_object, read_type_meta
from informers.client.listing import read_page
from informers.client.request_counts import RequestCounts, RequestStatistics
from informers.client.responses import error_for_response, mapped_errors
from informers.client.watch_stream import EventDecoder, WatchCounts, decode_events
from informers.errors import ApiError

# One watch per resource and the writes of all workers; leader election uses a pool of its own.
CONNECTIONS = 64


@dataclass(frozen=True)
class Timeouts:
    """Timeouts in seconds.

    `request_seconds` bounds a get or a write and `list_seconds` one page of a list, end to end. An API server
    itself ends a request after 60 s. `connect_seconds` covers the wait for a free connection, name lookup,
    TCP, proxy and TLS together. `refresh_seconds` is the maximum age of credentials from files: one minute,
    as in client-go. The kubelet renews a token when a fifth of its lifetime is left.
    """

    request_seconds: float = 15.0
    list_seconds: float = 60.0
    connect_seconds: float = 5.0
    refresh_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Ensure that an unreachable server fails as `Unreachable`, not as an unknown outcome."""
        if not 0 < self.connect_seconds < min(self.request_seconds, self.list_seconds):
            raise ValueError("connect_seconds must be positive and less than the limits of requests")


_EVERYTHING = Selectors()
_UNCHECKED = Preconditions()
_SUCCESS = 2  # first digit of the HTTP code


@dataclass(frozen=True)
class TransportStatistics:
    """Counts since the start, and the state of connections and credentials (`session`)."""

    watch: WatchCounts
    session: SessionStatistics
    requests: RequestStatistics


@asynccontextmanager
async def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    connections: int = CONNECTIONS,
    user_agent: str = "informers",
    timeouts: Timeouts = Timeouts(),
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[KubeApi]:
    """Connect by `kubeconfig`, else `KUBECONFIG`, else the in-cluster account, else the default kubeconfig.

    Sends nothing yet. `connections` limits concurrent requests, watches included. Raises `ConfigurationError`
    with a one-line message.
    """
    source = choose_source(kubeconfig=kubeconfig, context=context, environ=environ)
    refresh_seconds = timeouts.refresh_seconds
    sessions = await open_sessions(
        source, connections=connections, user_agent=user_agent, refresh_seconds=refresh_seconds
    )
    try:
        yield KubeApi(sessions, timeouts=timeouts)
    finally:
        await sessions.aclose()


class KubeApi:
    """`informers.api.Api` over HTTP."""

    def __init__(self, sessions: SessionManager, *, timeouts: Timeouts = Timeouts()) -> None:
        self._sessions = sessions
        self._request_counts = RequestCounts()
        self._connect_seconds = timeouts.connect_seconds
        self._request_timeout = self._timeout(total=timeouts.request_seconds)
        self._list_timeout = self._timeout(total=timeouts.list_seconds)
        self._watch_counts = WatchCounts()

    def __repr__(self) -> str:
        return f"<KubeApi {self.server} requests={self._sessions.statistics().requests}>"

    @property
    def server(self) -> str:
        """Host and port of the server, for logs."""
        return self._sessions.server

    def statistics(self) -> TransportStatistics:
        """Return the counts and the state of the connections."""
        return TransportStatistics(
            watch=WatchCounts(**vars(self._watch_counts)),
            session=self._sessions.statistics(),
            requests=self._request_counts.statistics(),
        )

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """See `Api.get`."""
        request = self._request("GET", path_of(resource, namespace, name))
        return decode_object(resource, await self._body(request))

    async def list_page(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selectors: Selectors = _EVERYTHING,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
        on_object: Callable[[T], object] | None = None,
    ) -> Page[T]:
        """See `Api.list_page`."""
        query = _selectors(selectors) | {"limit": str(limit or ""), "continue": continue_token}
        if resource_version and not continue_token:  # the token contains its version
            # Without this match, a limit would mean exactly this version, not at least this one.
            query |= {"resourceVersion": resource_version, "resourceVersionMatch": "NotOlderThan"}
        path = path_of(resource, namespace)
        request = self._request("GET", path, query=query, timeout=self._list_timeout)
        async with self._response(request) as response, aclosing(_chunks(response, request)) as chunks:
            return await read_page(resource, chunks, on_object)

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
        """See `Api.watch`.

        `idle_seconds` also bounds the wait for the headers. A proxy may delay them until the first event,
        and bookmarks arrive about once a minute.
        """
        query = _selectors(selectors) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        timeout = self._timeout(idle=idle_seconds)
        # No compression: a compressing proxy delays events to fill its blocks.
        headers = {"Accept-Encoding": "identity"}
        path = path_of(resource, namespace)
        request = self._request("GET", path, query=query, headers=headers, timeout=timeout)
        decoder = EventDecoder(resource, self._watch_counts)
        async with (
            self._response(request) as response,
            aclosing(_chunks(response, request)) as chunks,
            aclosing(decode_events(chunks, decoder, str(request))) as stream,
        ):
            yield stream

    async def create(
        self,
        resource: Resource[T],
        body: Json,
        namespace: str = "",
        *,
        strict: bool = False,
        dry_run: bool = False,
    ) -> T:
        """See `Api.create`."""
        query = {"fieldValidation": "Strict" if strict else "", "dryRun": "All" if dry_run else ""}
        request = self._request("POST", path_of(resource, namespace), query=query, body=body)
        return decode_object(resource, await self._body(request))

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
        """See `Api.patch`."""
        path = path_of(resource, namespace, name, subresource)
        headers = {"Content-Type": patch_type.value}
        request = self._request("PATCH", path, body=body, headers=headers)
        return decode_object(resource, await self._body(request))

    async def update(
        self, resource: Resource[T], name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> T:
        """See `Api.update`."""
        path = path_of(resource, namespace, name, subresource)
        request = self._request("PUT", path, body=body)
        return decode_object(resource, await self._body(request))

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = _UNCHECKED,
    ) -> T | None:
        """See `Api.delete`."""
        wanted = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        body["preconditions"] = {key: value for key, value in wanted.items() if value is not None}
        request = self._request("DELETE", path_of(resource, namespace, name), body=body)
        data = await self._body(request)
        return None if read_type_meta(data).kind == "Status" else decode_object(resource, data)

    def _request(
        self,
        method: str,
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
            path=path,
            query=urlencode({key: value for key, value in (query or {}).items() if value}),
            body=encoded,
            headers={**content, **(headers or {})},
            timeout=timeout or self._request_timeout,
        )

    async def _body(self, request: HttpRequest) -> bytes:
        async with self._response(request) as response:
            with mapped_errors(str(request)):
                return await response.read()

    @asynccontextmanager
    async def _response(self, request: HttpRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a successful response once its headers have arrived."""
        session, observe = self._sessions.current(), self._request_counts.observe
        for may_renew in (True, False):
            authorization = session.config.authorization
            async with session.pool.send(request, authorization, observe) as response:
                if response.status // 100 == _SUCCESS:
                    yield response
                    return
                if response.status != HTTPStatus.UNAUTHORIZED or not may_renew:
                    raise await _error(request, response)
            session = await self._sessions.renew(session)
            self._request_counts.observe_retry(request.method, str(HTTPStatus.UNAUTHORIZED.value))

    def _timeout(self, *, total: float | None = None, idle: float | None = None) -> aiohttp.ClientTimeout:
        connect_seconds = self._connect_seconds
        return aiohttp.ClientTimeout(
            total=total, connect=connect_seconds, sock_connect=connect_seconds, sock_read=idle
        )


async def _chunks(response: aiohttp.ClientResponse, request: HttpRequest) -> AsyncGenerator[bytes, None]:
    with mapped_errors(str(request)):
        while chunk := await response.content.readany():
            yield chunk


def path_of(resource: Resource[Any], namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the URL path of a resource, or of one of its objects."""
    if namespace and not resource.namespaced:
        raise ValueError(f"{resource} is cluster-scoped and has no namespace {namespace!r}")
    if name and resource.namespaced and not namespace:
        raise ValueError(f"{resource} {name!r} needs a namespace")
    parts = [part for part in (name, subresource) if part]
    return _collection_path(resource, namespace) + _path(parts)


@lru_cache(maxsize=256)
def _collection_path(resource: Resource[Any], namespace: str) -> str:
    """Return the URL path of a collection; cached, since there are few and every request needs one."""
    root = ["apis", resource.group] if resource.group else ["api"]
    scope = ["namespaces", namespace] if namespace else []
    return _path([*root, resource.version, *scope, resource.plural])


def _path(parts: list[str]) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _selectors(selectors: Selectors) -> dict[str, str]:
    return {"labelSelector": selectors.labels, "fieldSelector": selectors.fields}


async def _error(request: HttpRequest, response: aiohttp.ClientResponse) -> ApiError:
    retry_after = response.headers.get("Retry-After")
    try:
        with mapped_errors(str(request)):
            body = await response.read()
    except ApiError:
        body = b""  # the code alone is enough
    return error_for_response(str(request), response.status, retry_after, body)
