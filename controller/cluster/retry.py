"""Reads are sent again when the server is busy or silent for a moment: they change nothing.

A read past the cache stands between two steps of a reconcile, often with a provisional seat in hand: giving
up at the first 503 would leave that seat for later repair. Writes are never sent again here; what became of
one is read back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from informers.errors import OutcomeUnknown, ServerError, TooManyRequests, Unreachable

R = TypeVar("R")

ATTEMPTS = 3
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0


def _pause_seconds(state: RetryCallState) -> float:
    """What the server asked for, within reason, else a pause that doubles."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = getattr(error, "retry_after_seconds", None)
    doubled = FIRST_PAUSE_SECONDS * 2 ** (state.attempt_number - 1)
    return float(min(max(asked or 0.0, doubled), LONGEST_PAUSE_SECONDS))


async def retry_read(read: Callable[[], Awaitable[R]]) -> R:
    """Call `read` until it answers, three times at most; raises what the last attempt raised."""
    attempts = AsyncRetrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=_pause_seconds,
        retry=retry_if_exception_type((ServerError, TooManyRequests, Unreachable, OutcomeUnknown)),
        sleep=anyio.sleep,
        reraise=True,
    )

    async def attempt() -> R:
        # tenacity awaits only what is declared async: a lambda that returns a coroutine is not.
        return await read()

    return await attempts(attempt)
