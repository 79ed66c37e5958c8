"""Withholds writes of a process that may no longer lead.

A process frozen past its lease resumes in the middle of its work. The elector cancels that work, but another
ready task may run first, and its next step may be a write. `may_write` withholds that write. It is checked
when the write is made, and again in the step that hands its bytes to the event loop, because a request may
wait in between for a free connection, for TCP and TLS, and for its turn to be written. The check travels in
the task's context, so that the `Api` between the two stays unaware of it.

Not covered: the rest of that event loop turn and the network path. Writes still need their preconditions.
Reads pass, and so do writes of `unguarded` resources, which need no leader (Events, for example).
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
    """An `Api` whose writes raise `NotLeading`, unsent, while `may_write` returns false."""

    def __init__(
        self, api: Api, may_write: Callable[[], bool], *, unguarded: Collection[Resource[Any]] = ()
    ) -> None:
        self._api = api
        self._may_write = may_write
        self._unguarded = tuple(unguarded)
        self._withheld = 0

    def __repr__(self) -> str:
        return f"<GuardedApi {self._api!r} may_write={self._may_write()} withheld={self._withheld}>"

    def statistics(self) -> int:
        """Return the number of withheld writes."""
        return self._withheld

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
        on_object: Callable[[T], object] | None = None,
    ) -> Page[T]:
        """See `Api.list_page`."""
        return await self._api.list_page(
            resource,
            namespace,
            selectors=selectors,
            resource_version=resource_version,
            limit=limit,
            continue_token=continue_token,
            on_object=on_object,
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
        with self._guarded(resource):
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
        with self._guarded(resource):
            return await self._api.patch(
                resource, name, body, namespace, subresource=subresource, patch_type=patch_type
            )

    async def update(
        self, resource: Resource[T], name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> T:
        """See `Api.update`. Raises `NotLeading`."""
        with self._guarded(resource):
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
        with self._guarded(resource):
            return await self._api.delete(resource, name, namespace, preconditions=preconditions)

    def _guarded(self, resource: Resource[Any]) -> AbstractContextManager[None]:
        def check() -> None:
            if not self._may_write():
                self._withheld += 1
                raise NotLeading(f"a write of {resource} was withheld: this process no longer leads")

        return nullcontext() if resource in self._unguarded else write_check(check)


WriteCheck = Callable[[], None]
"""Returns if the request may be sent, else raises an `ApiError` with the reason."""

_write_check: ContextVar[WriteCheck | None] = ContextVar("write_check", default=None)


@contextmanager
def write_check(check: WriteCheck) -> Iterator[None]:
    """Run `check` now, and again before each write of the block is sent. Reads are not checked."""
    check()
    token = _write_check.set(check)
    try:
        yield
    finally:
        _write_check.reset(token)


def run_write_check() -> None:
    """Run the check of the current context, if any. Raises what the check raises."""
    check = _write_check.get()
    if check is not None:
        check()


class GuardedBody(aiohttp.BytesPayload):
    """A request body that runs the write check in the step that writes it; `denial` is the error raised.

    A middleware or trace would be too early: aiohttp assigns a connection to a request and, below Python
    3.12, writes the body in a separate task, after other ready tasks. Headers are sent together with the
    body, so no byte of a denied request is sent. Every write has a body, and only writes have one.
    """

    denial: ApiError | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the bytes. Raises what the write check raises."""
        try:
            run_write_check()
        except ApiError as denial:
            self.denial = denial
            raise
        await super().write_with_length(writer, content_length)


@contextmanager
def raise_denial(body: GuardedBody | None) -> Iterator[None]:
    """Raise the denial itself instead of aiohttp's error about a body that it could not send."""
    try:
        yield
    except aiohttp.ClientError:
        if body is not None and body.denial is not None:
            raise body.denial from None  # aiohttp's error has it as its cause already
        raise
