"""Retries of reads while the server is overloaded or unreachable for a moment.

A live read often happens while a reconcile holds a provisional seat: giving up at the first 503 would leave
that seat to a later repair. Writes are never retried here; their outcome is read back instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from informers.errors import OutcomeUnknown, ServerError, TooManyRequests, Unreachable

R = TypeVar("R")

ATTEMPTS = 3
PAUSE_MIN_SECONDS = 0.1
PAUSE_MAX_SECONDS = 5.0


def _pause_seconds(state: RetryCallState) -> float:
    """Return the pause that the server asked for, within bounds, or one that doubles."""
    error = state.outcome.exception() if state.outcome is not None else None
    requested = getattr(error, "retry_after_seconds", None)
    doubled = PAUSE_MIN_SECONDS * 2 ** (state.attempt_number - 1)
    return float(min(max(requested or 0.0, doubled), PAUSE_MAX_SECONDS))


async def retry_read(read: Callable[[], Awaitable[R]]) -> R:
    """Call `read` up to three times. Raises the error of the last attempt."""
    attempts = AsyncRetrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=_pause_seconds,
        retry=retry_if_exception_type((ServerError, TooManyRequests, Unreachable, OutcomeUnknown)),
        sleep=anyio.sleep,
        reraise=True,
    )

    async def attempt() -> R:
        # tenacity awaits only coroutine functions, not a lambda that returns a coroutine.
        return await read()

    return await attempts(attempt)
