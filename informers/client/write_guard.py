"""Withholds writes of a process that may no longer lead.

A process frozen past its lease resumes in the middle of its work. The elector cancels that work, but another
ready task may run first and write. So `may_write` is checked when a write is made, and again in the step that
passes its bytes to the event loop. In between, a request may wait for a connection, TCP, TLS and its turn to
be written. The check is stored in the task's context, so the `Api` in between need not pass it on.

Not covered: the rest of that event loop iteration, and the network path. Writes still need their
preconditions. Reads pass, and so do writes of `unguarded` resources, which need no leader (Events, for
example).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from informers.api import Api, Resource
from informers.errors import ApiError, NotLeading

Write = TypeVar("Write", bound=Callable[..., Awaitable[Any]])


class GuardedApi:
    """An `Api` whose writes raise `NotLeading`, unsent, while `may_write` returns false."""

    def __init__(
        self, api: Api, may_write: Callable[[], bool], *, unguarded: Collection[Resource[Any]] = ()
    ) -> None:
        self._api = api
        self._may_write = may_write
        self._unguarded = tuple(unguarded)
        self._withheld = 0
        self.get, self.list_page, self.watch = api.get, api.list_page, api.watch
        self.create, self.patch = self._guard(api.create), self._guard(api.patch)
        self.update, self.delete = self._guard(api.update), self._guard(api.delete)

    def __repr__(self) -> str:
        return f"<GuardedApi {self._api!r} may_write={self._may_write()} withheld={self._withheld}>"

    def statistics(self) -> int:
        """Return the number of withheld writes."""
        return self._withheld

    def _guard(self, write: Write) -> Write:
        @wraps(write)
        async def guarded(resource: Resource[Any], *args: Any, **kwargs: Any) -> Any:
            with self._guarded(resource):
                return await write(resource, *args, **kwargs)

        return cast("Write", guarded)

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


class GuardedBody(aiohttp.BytesPayload):
    """A request body that runs the write check in the step that writes it; `denial` is the error raised.

    A middleware or trace would run too early: below Python 3.12, aiohttp writes the body in a separate task.
    Headers are sent with the body, so no byte of a denied request is sent. All writes, and only writes, have
    a body.
    """

    denial: ApiError | None = None
    _started = False

    def is_unsent(self) -> bool:
        """Whether no byte of the request was written."""
        return not self._started

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the bytes. Raises what the write check raises."""
        check = _write_check.get()
        try:
            if check is not None:
                check()
        except ApiError as denial:
            self.denial = denial
            raise
        self._started = True
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
