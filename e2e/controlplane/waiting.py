"""Waiting for something that another process does, by looking again until a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

from e2e.controlplane.errors import NotReady

T = TypeVar("T")

INTERVAL_SECONDS = 0.03


def pause_briefly(seconds: float = INTERVAL_SECONDS) -> None:
    """Let other processes work. The driver is a plain program: there is no event loop to block."""
    time.sleep(seconds)  # noqa: TID251


def wait_until(
    observe: Callable[[], T | None],
    what: str,
    *,
    timeout_seconds: float,
    interval_seconds: float = INTERVAL_SECONDS,
) -> T:
    """Return the first answer of `observe` that is neither None nor False.

    `what` completes the sentence "... not within 5 s": it names the thing awaited and who owes it.
    `observe` is always asked once more after the deadline, so that a machine that slept in between reports
    no false failure.
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
