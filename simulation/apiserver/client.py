"""The client port (`informers.api.Api`) of the in-memory server, with latency, failures and crashes.

A call waits for its latency, is applied at the server in one step, and waits for its latency again. Responses
are bytes that pass through the decoding and the error mapping of the real transport. Every client has its own
identity and interceptor, so that faults can target one of two controllers. Without a latency function, the
interceptor also adds the delays.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from informers.api import Json, Page, PatchType, Preconditions, Resource, Selectors, T, WatchEvent
from informers.client.decoding import decode_object
from informers.client.listing import SLICE_BYTES, read_page
from informers.client.responses import error_for_response
from informers.client.watch_stream import EventDecoder, WatchCounts
from informers.errors import ApiError, OutcomeUnknown
from simulation.apiserver import refusals
from simulation.apiserver.dry_run import dry_run_server
from simulation.apiserver.interception import Apply, Interceptor, Request, pass_through
from simulation.apiserver.kinds import Kind, kind_of
from simulation.apiserver.refusals import Refusal
from simulation.apiserver.server import ApiServer
from simulation.apiserver.watches import ConnectionLost, Watch, Watches

REQUEST_SECONDS = 15.0
"""The timeout of one request, as in the real transport."""

_EVERYTHING = Selectors()
_UNCHECKED = Preconditions()
_SUCCESS = b'{"kind":"Status","apiVersion":"v1","status":"Success"}'

Observer = Callable[[Request, ApiError | None], None]
Latency = Callable[[Request], float]


def no_latency(_request: Request) -> float:
    """Return no latency. Other tasks still run during the call."""
    return 0.0


@dataclass(frozen=True)
class ClientStatistics:
    """Counters of one client."""

    requests: int
    in_flight: int
    crashed: bool


class ApiClient:
    """The API client of one process."""

    def __init__(
        self,
        server: ApiServer,
        watches: Watches,
        identity: str,
        *,
        interceptor: Interceptor = pass_through,
        latency_seconds: Latency | None = no_latency,
        observe: Observer = lambda _request, _error: None,
    ) -> None:
        self.identity = identity
        self.interceptor = interceptor
        self._server = server
        self._watches = watches
        self._latency_seconds = latency_seconds
        self._observe = observe
        self._requests = 0
        self._in_flight = 0
        self._crashed = anyio.Event()
        self._counts = WatchCounts()

    def __repr__(self) -> str:
        return f"<ApiClient {self.identity} requests={self._requests} crashed={self.crashed}>"

    def statistics(self) -> ClientStatistics:
        """Return the current counters."""
        return ClientStatistics(self._requests, self._in_flight, self.crashed)

    # Crashing.

    @property
    def crashed(self) -> bool:
        """Whether the process of this client has crashed."""
        return self._crashed.is_set()

    def crash(self) -> None:
        """Crash the process: its calls no longer reach the server, and it receives no more responses."""
        self._crashed.set()

    async def wait_crashed(self) -> None:
        """Wait until the process has crashed."""
        await self._crashed.wait()

    # The port.

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """See `informers.api.Api`."""
        kind = _served(resource)
        data = await self._call(
            self._request("get", kind, namespace, name),
            lambda: self._server.get(kind, name, namespace).data,
        )
        return decode_object(resource, data)

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
        """See `informers.api.Api`."""
        kind = _served(resource)
        data = await self._call(
            self._request("list", kind, namespace),
            lambda: (
                self._server.list_page(
                    kind,
                    namespace,
                    selectors=selectors,
                    resource_version=resource_version,
                    limit=limit,
                    continue_token=continue_token,
                ).data
            ),
        )
        return await read_page(resource, _chunks(data), on_object)

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
        """See `informers.api.Api`."""
        kind = _served(resource)
        opened: list[Watch] = []

        def open_watch() -> bytes:
            opened.append(self._watches.open(self.identity, kind, namespace, selectors, resource_version))
            return b""

        decoder = EventDecoder(resource, self._counts)
        try:
            await self._call(self._request("watch", kind, namespace), open_watch)
            async with aclosing(self._events(opened[-1], decoder, timeout_seconds, idle_seconds)) as events:
                yield events
        finally:
            for watch in opened:
                self._watches.forget(watch)

    async def create(
        self,
        resource: Resource[T],
        body: Json,
        namespace: str = "",
        *,
        strict: bool = False,
        dry_run: bool = False,
    ) -> T:
        """See `informers.api.Api`."""
        kind = _served(resource)
        name = str((body.get("metadata") or {}).get("name", ""))
        server = dry_run_server(self._server) if dry_run else self._server
        data = await self._call(
            self._request("create", kind, namespace, name, body=body, dry_run=dry_run),
            lambda: server.create(kind, namespace, body, strict=strict).data,
        )
        return decode_object(resource, data)

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
        """See `informers.api.Api`."""
        kind = _served(resource)
        data = await self._call(
            self._request("patch", kind, namespace, name, subresource=subresource, body=body),
            lambda: (
                self._server.patch(
                    kind, name, namespace, body, subresource=subresource, patch_type=patch_type
                ).data
            ),
        )
        return decode_object(resource, data)

    async def update(
        self,
        resource: Resource[T],
        name: str,
        body: Json,
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """See `informers.api.Api`."""
        kind = _served(resource)
        data = await self._call(
            self._request("update", kind, namespace, name, subresource=subresource, body=body),
            lambda: self._server.update(kind, name, namespace, body, subresource=subresource).data,
        )
        return decode_object(resource, data)

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = _UNCHECKED,
    ) -> T | None:
        """See `informers.api.Api`."""
        kind = _served(resource)

        def act() -> bytes:
            done = self._server.delete(kind, name, namespace, preconditions=preconditions)
            return done.record.data if kind.returns_deleted or not done.gone else _SUCCESS

        data = await self._call(self._request("delete", kind, namespace, name), act)
        return None if data == _SUCCESS else decode_object(resource, data)

    # Making one call.

    def _request(
        self,
        verb: str,
        kind: Kind,
        namespace: str,
        name: str = "",
        *,
        subresource: str = "",
        body: Mapping[str, Any] | list[Json] | None = None,
        dry_run: bool = False,
    ) -> Request:
        self._requests += 1
        return Request(self.identity, self._requests, verb, kind, namespace, name, subresource, body, dry_run)

    async def _call(self, request: Request, act: Apply) -> bytes:
        self._in_flight += 1
        try:
            answer = await self._attempt(request, act)
        except ApiError as error:
            self._observe(request, error)
            raise
        finally:
            self._in_flight -= 1
        self._observe(request, None)
        return answer

    async def _attempt(self, request: Request, act: Apply) -> bytes:
        def apply() -> bytes:
            try:
                return act()
            except Refusal as refusal:
                raise error_for_response(str(request), refusal.code, None, refusal.data) from refusal

        with anyio.move_on_after(REQUEST_SECONDS):
            await self._delay(request)
            answer = await self.interceptor(request, apply)
            await self._delay(request)
            return answer
        if self.crashed:
            await anyio.sleep_forever()
        raise OutcomeUnknown(f"{request}: no answer within {REQUEST_SECONDS:g} s")

    async def _delay(self, request: Request) -> None:
        if self._latency_seconds is None:
            return
        await anyio.sleep(self._latency_seconds(request))
        if self.crashed:
            await anyio.sleep_forever()

    async def _events(
        self, watch: Watch, decoder: EventDecoder[T], timeout_seconds: int, idle_seconds: float
    ) -> AsyncGenerator[WatchEvent[T], None]:
        closes_seconds = anyio.current_time() + timeout_seconds
        while not watch.ended:
            silent_seconds = anyio.current_time() + idle_seconds
            try:
                # The client's clock may run at a different rate than the server's.
                left_seconds = min(closes_seconds, silent_seconds) - anyio.current_time()
                line = await watch.read(watch.now() + left_seconds)
            except ConnectionLost as error:
                raise OutcomeUnknown(f"watch {watch.kind}: the connection was lost") from error
            if self.crashed:
                await anyio.sleep_forever()
            if line is not None:
                event = decoder.decode(line)
                if event is not None:
                    yield event
            elif silent_seconds <= min(anyio.current_time(), closes_seconds):
                raise OutcomeUnknown(f"watch {watch.kind}: nothing came for {idle_seconds:g} s")
            else:
                return


def _served(resource: Resource[Any]) -> Kind:
    kind = kind_of(resource)
    if kind is None:
        refusal = refusals.not_served()
        raise error_for_response(str(resource), refusal.code, None, refusal.data)
    return kind


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    """Yield a response in the pieces in which a real one is decoded."""
    for start in range(0, len(data), SLICE_BYTES):
        yield data[start : start + SLICE_BYTES]
