"""Permission to send a request, asked for in the step that hands its bytes to the event loop.

A request may wait for its connection: for one of the pool that is free, for TCP and TLS to be set up; and
then for its turn to be written. What was allowed when it was made may no longer be by then, above all in a
process that was frozen meanwhile. Whoever makes the request puts a check around it (`permit`); whoever sends
it asks (`ask_permit`). The check travels with the task, so that the port between the two need not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
