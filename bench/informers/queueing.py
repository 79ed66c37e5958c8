"""The work queue under its ordinary load, with its metrics: keys that are added, taken and given back."""

from __future__ import annotations

import gc
from random import Random

import anyio

from bench.informers.readers import Clock
from informers.api import ObjectKey
from informers.backoff import RetryLimiter
from informers.queue.workqueue import WorkQueue

AT_ONCE = 100
"""Keys that are added before they are taken, one after the other."""

DELAY_SECONDS = 3600.0


def cycles(delayed: int, count: int) -> dict[str, float]:
    """What `count` cycles take while so many keys wait for their time."""
    return anyio.run(_cycles, delayed, count, backend_options={"use_uvloop": True})


async def _cycles(delayed: int, count: int) -> dict[str, float]:
    queue: WorkQueue[ObjectKey] = WorkQueue("bench", RetryLimiter.with_defaults(Random(0)))
    for number in range(delayed):
        queue.add_after(ObjectKey("later", f"worker-{number}"), DELAY_SECONDS + number)
    keys = [ObjectKey("now", f"worker-{number}") for number in range(AT_ONCE)]
    gc.collect()
    clock = Clock()
    for _ in range(count // AT_ONCE):
        for key in keys:
            queue.add(key)
        for _ in keys:
            queue.done(await queue.get())
    report = clock.report(count // AT_ONCE * AT_ONCE)
    taken = queue.statistics()
    if taken.queue_seconds.count != report["objects"] or taken.delayed != delayed:
        raise AssertionError(f"the queue lost count: {taken}")
    queue.shut_down()
    return report
