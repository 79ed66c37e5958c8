"""Work queues with the default limits, and helpers to empty them."""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import TypeVar

import anyio

from informers.backoff import RetryLimiter
from informers.queue.workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)

LATE = (1.0,)
"""An order after that of keys without one."""


def make_queue(*, ageing_seconds: float = 30.0, seed: int = 1) -> WorkQueue[str]:
    return WorkQueue("test", RetryLimiter.with_defaults(random.Random(seed)), ageing_seconds=ageing_seconds)


async def take_all(queue: WorkQueue[K]) -> list[K]:
    """Take and finish all ready keys, in order."""
    taken = []
    while len(queue):
        taken.append(await queue.get())
        queue.done(taken[-1])
    return taken


async def take_timed(queue: WorkQueue[str], count: int) -> list[tuple[str, float]]:
    """Take and finish the next `count` keys; return the time of each."""
    taken = []
    for _ in range(count):
        key = await queue.get()
        taken.append((key, round(anyio.current_time(), 6)))
        queue.done(key)
    return taken
