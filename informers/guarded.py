"""An `Api` that writes only while it may: the check that leader election asks for before each write.

A process that was frozen past its lease goes on in the middle of its work when it wakes. The elector cancels
that work, but what is ready first runs first, and may be a write. `may_write` keeps it back; it is asked
when the write is made and, by a transport that asks for permits (`informers.permits`), again in the step
that hands its bytes to the event loop. What is left is the rest of that turn of the loop and the way to the
server, which no check of ours can close: the writes still need their preconditions.

Reads pass. So do writes of the resources in `free`, which belong to no leader (Events, say).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any

from informers.api import Api, Json, Page, PatchType, Preconditions, Resource, Selectors, T, WatchEvent
from informers.errors import NotLeading
from informers.permits import permit

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
