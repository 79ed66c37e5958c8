"""The work queue with its metrics: cycles of add, get and done."""

from __future__ import annotations

import gc
from random import Random

import anyio

from bench.informers.readers import Clock
from informers.api import ObjectKey
from informers.backoff import RetryLimiter
from informers.queue.workqueue import WorkQueue

AT_ONCE = 100
"""Keys that are added before the first is taken."""

DELAY_SECONDS = 3600.0


def cycles(delayed: int, count: int) -> dict[str, float]:
    """Return the cost of `count` cycles while the queue holds `delayed` other keys."""
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
    statistics = queue.statistics()
    if statistics.queue_seconds.count != report["objects"] or statistics.delayed != delayed:
        raise AssertionError(f"wrong counts of the queue: {statistics}")
    queue.shut_down()
    return report
