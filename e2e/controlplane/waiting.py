"""Polling for conditions in other processes."""

import time
from collections.abc import Callable
from typing import TypeVar

from e2e.controlplane.errors import NotReady

T = TypeVar("T")

INTERVAL_SECONDS = 0.03


def pause_briefly(seconds: float = INTERVAL_SECONDS) -> None:
    """Sleep briefly. The driver has no event loop that this could block."""
    time.sleep(seconds)  # noqa: TID251


def wait_until(
    observe: Callable[[], T | None],
    what: str,
    *,
    timeout_seconds: float,
    interval_seconds: float = INTERVAL_SECONDS,
) -> T:
    """Return the first result of `observe` that is neither None nor False.

    `what` describes the failure and completes "...: not within 5 s". `observe` runs once more after the
    deadline, so that a suspended machine causes no false failure.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        late = time.monotonic() >= deadline
        answer = observe()
        if answer is not None and answer is not False:
            return answer
        if late:
            raise NotReady(f"{what}: not within {timeout_seconds:g} s")
        pause_briefly(interval_seconds)
