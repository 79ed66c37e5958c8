"""An `Api` that writes only while it may: the check that leader election asks for before each write.

A process that was frozen past its lease goes on in the middle of its work when it wakes. The elector cancels
that work, but what is ready first runs first, and may be a write. `may_write` keeps it back; it is asked
when the write is made and, by a transport that asks for permits (`informers.client.write_guard`), again in
the step that hands its bytes to the event loop. What is left is the rest of that turn of the loop and the way
to the server, which no check of ours can close: the writes still need their preconditions.

Reads pass. So do writes of the resources in `free`, which belong to no leader (Events, say).

Permission to send a request, asked for in the step that hands its bytes to the event loop.

A request may wait for its connection: for one of the pool that is free, for TCP and TLS to be set up; and
then for its turn to be written. What was allowed when it was made may no longer be by then, above all in a
process that was frozen meanwhile. Whoever makes the request puts a check around it (`permit`); whoever sends
it asks (`ask_permit`). The check travels with the task, so that the port between the two need not know of it.

A request body that asks for permission in the step that writes it.

aiohttp hands a connection to a request and, below Python 3.12, writes the body in a task of its own, after
whatever else is ready; a middleware and a trace come earlier still. Headers wait for the body and leave with
it, so a body that is refused is a request of which not a byte was sent. Only writes have bodies, and each
write has one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from informers.api import Api, Json, Page, PatchType, Preconditions, Resource, Selectors, T, WatchEvent
from informers.errors import ApiError, NotLeading

_EVERYTHING = Selectors()
_UNCHECKED = Preconditions()


class GuardedApi:
    """`api`, whose writes raise `NotLeading`, unsent, where `may_write` says no."""

    def __init__(
        self, api: Api, may_write: Callable[[], bool], *, free: Collection[Resource[Any]] = ()
    ) -> None:
        self._api = api
        self._may_write = may_write
        self._free = tuple(free)
        self._refused = 0

    def __repr__(self) -> str:
        return f"<GuardedApi {self._api!r} may_write={self._may_write()} refused={self._refused}>"

    def statistics(self) -> int:
        """Writes that were kept back."""
        return self._refused

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """See `Api.get`."""
        return await self._api.get(resource, name, namespace)

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
        """See `Api.list_page`."""
        return await self._api.list_page(
            resource,
            namespace,
            selectors=selectors,
            resource_version=resource_version,
            limit=limit,
            continue_token=continue_token,
            take=take,
        )

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        timeout_seconds: int,
        idle_seconds: float,
        selectors: Selectors = _EVERYTHING,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """See `Api.watch`."""
        return self._api.watch(
            resource,
            namespace,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
            idle_seconds=idle_seconds,
            selectors=selectors,
        )

    async def create(
        self, resource: Resource[T], body: Json, namespace: str = "", *, strict: bool = False
    ) -> T:
        """See `Api.create`. Raises `NotLeading`."""
        with self._permitted(resource):
            return await self._api.create(resource, body, namespace, strict=strict)

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
        """See `Api.patch`. Raises `NotLeading`."""
        with self._permitted(resource):
            return await self._api.patch(
                resource, name, body, namespace, subresource=subresource, patch_type=patch_type
            )

    async def update(
        self, resource: Resource[T], name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> T:
        """See `Api.update`. Raises `NotLeading`."""
        with self._permitted(resource):
            return await self._api.update(resource, name, body, namespace, subresource=subresource)

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = _UNCHECKED,
    ) -> T | None:
        """See `Api.delete`. Raises `NotLeading`."""
        with self._permitted(resource):
            return await self._api.delete(resource, name, namespace, preconditions=preconditions)

    def _permitted(self, resource: Resource[Any]) -> AbstractContextManager[None]:
        def check() -> None:
            if not self._may_write():
                self._refused += 1
                raise NotLeading(f"a write of {resource} was kept back: this process does not lead any more")

        return nullcontext() if resource in self._free else permit(check)


Check = Callable[[], None]
"""Returns if the request may be sent, raises the `ApiError` that says why not."""

_check: ContextVar[Check | None] = ContextVar("check", default=None)


@contextmanager
def permit(check: Check) -> Iterator[None]:
    """Have writes that are made in the block ask `check` before they are sent; it is asked first thing.

    A request without a body asks nothing more: there is nothing to keep back but a read.
    """
    check()
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def ask_permit() -> None:
    """Raise what the check of the request at hand raises, if it has one."""
    check = _check.get()
    if check is not None:
        check()


class GuardedBody(aiohttp.BytesPayload):
    """Bytes that are written only if `ask_permit` allows it; `refusal` is what it raised."""

    refusal: ApiError | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the bytes. Raises what the permit's check raises."""
        try:
            ask_permit()
        except ApiError as refusal:
            self.refusal = refusal
            raise
        await super().write_with_length(writer, content_length)


@contextmanager
def refusals_of(body: GuardedBody | None) -> Iterator[None]:
    """Raise the refusal itself where aiohttp reports a body that it could not send."""
    try:
        yield
    except aiohttp.ClientError:
        if body is not None and body.refusal is not None:
            raise body.refusal from None  # aiohttp's error has it as its cause already
        raise
