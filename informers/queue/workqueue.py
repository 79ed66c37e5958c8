"""Keys to reconcile: each at most once in the queue and at most once running.

client-go's queue with its layers (dedup, delay, rate limit, metrics) in one class. Guarantees:

* A key added while it waits runs once. A key added during its run is run once more after `done`.
* A delayed key runs at the earliest of its times. An immediate add makes it run now and drops the delay, so a
  reconcile must request its next call every time.
* The smallest (order, sequence) runs first: the caller's `order` (keys without one first), then first in,
  first out. The unique sequence increases when a key becomes ready or moves ahead. A key that is added again
  keeps the smaller of its orders.
* No starvation: at least every `AGED_TURN`-th turn goes to the key that has been ready longest, if that is
  `ageing_seconds` or more. A flood of aged keys delays a new one by at most one turn.
* Retries are rate-limited per key and in total; new events never are.
* `get` takes a key in the step in which it returns: cancelling it loses no key.

Not guaranteed: n runs for n adds, and any order between running keys. Keys do not survive `shut_down`; the
next start finds them again. All methods belong to one event loop and its thread.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

import anyio

from informers.backoff import RetryLimiter
from informers.histogram import Histogram, HistogramStatistics

K = TypeVar("K", bound=Hashable)

# Compared between keys: every non-empty order of a queue needs the same shape.
Order = tuple[float | str, ...]

AGEING_SECONDS = 30.0
AGED_TURN = 8

# Longer than any sensible delay, short enough that no clock arithmetic or timer overflows.
DELAY_MAX_SECONDS = 180 * 86_400.0

# Superseded heap entries stay and are skipped; the heap is rebuilt when they exceed the live ones by this.
_STALE_ALLOWED = 64


class QueueShutDown(Exception):
    """Raised by `get` after `shut_down`: the worker should end."""


@dataclass(frozen=True)
class WorkQueueStatistics:
    """The values of client-go's `workqueue_*` metrics, in seconds and counts."""

    depth: int
    delayed: int
    adds_total: int
    """Keys that became due for a run; merged adds are not counted."""
    retries_total: int
    """Calls of `add_after` and `add_rate_limited`."""
    queue_seconds: HistogramStatistics
    """From ready to taken."""
    work_seconds: HistogramStatistics
    unfinished_seconds: float
    """Sum over the running keys of the time since they were taken."""
    longest_running_seconds: float


@dataclass(slots=True)
class _Ready:
    order: Order
    sequence: int
    since: float


@dataclass(slots=True)
class _Delayed:
    order: Order
    sequence: int
    due: float


@dataclass(slots=True)
class _Run:
    order: Order
    since: float
    again: Order | None = None


class WorkQueue(Generic[K]):
    """See the module for guarantees. `name` appears in logs and metrics; `limiter` delays retries."""

    def __init__(
        self, name: str, limiter: RetryLimiter[K], *, ageing_seconds: float = AGEING_SECONDS
    ) -> None:
        self.name = name
        self._limiter = limiter
        self._ageing_seconds = ageing_seconds

        # A key is in at most one of: `_ready`, `_delayed`, `_running` with `again` set.
        # In the order in which keys became ready. None of them is in `_running`.
        self._ready: OrderedDict[K, _Ready] = OrderedDict()
        # Waiting for a time; such a key may be running as well.
        self._delayed: dict[K, _Delayed] = {}
        # Taken by `get` and not yet `done`; with `again` it must run once more after that.
        self._running: dict[K, _Run] = {}

        # Each value of `_ready` / `_delayed` has its (order | due, sequence) here; other entries are stale.
        self._ready_heap: list[tuple[Order, int, K]] = []
        self._delayed_heap: list[tuple[float, int, K]] = []
        # Set for `_timer_due` or earlier whenever a key is delayed until then.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = math.inf
        # Waiting getters. Either none waits, or as many were notified and have not run yet as keys are ready.
        self._getters: deque[anyio.Event] = deque()
        self._idle: anyio.Event | None = None
        self._shut_down = False

        self._sequence = itertools.count()
        self._turns_since_aged = 0
        self._adds = 0
        self._retries = 0
        self._queue_seconds = Histogram()
        self._work_seconds = Histogram()

    def __repr__(self) -> str:
        state = " shut down" if self._shut_down else ""
        counts = f"ready={len(self._ready)} delayed={len(self._delayed)} running={len(self._running)}"
        return f"<WorkQueue {self.name!r} {counts} getters={len(self._getters)}{state}>"

    def __len__(self) -> int:
        """Return the number of keys that are ready to be taken."""
        return len(self._ready)

    def add(self, key: K, *, order: Order = ()) -> None:
        """Run `key` as soon as its turn comes, and drop its delay."""
        if self._shut_down:
            return
        delayed = self._delayed.pop(key, None)
        self._enqueue(key, order if delayed is None else min(order, delayed.order))

    def add_after(self, key: K, delay_seconds: float, *, order: Order | None = None) -> None:
        """Run `key` after at most `delay_seconds`; a key that is due earlier keeps its time.

        Without `order`, a running key keeps the order of its run. Delays over `DELAY_MAX_SECONDS` are
        clamped; a delay of 0 or less is an immediate add. Raises `ValueError` for NaN.
        """
        if math.isnan(delay_seconds):
            raise ValueError(f"the delay of {key!r} is not a number")
        if self._shut_down:
            return
        self._retries += 1
        run = self._running.get(key)
        if order is None:
            order = () if run is None else run.order
        if key in self._ready or (run is not None and run.again is not None):
            self._enqueue(key, order)
        elif delay_seconds <= 0:
            self.add(key, order=order)
        else:
            self._delay(key, order, anyio.current_time() + min(delay_seconds, DELAY_MAX_SECONDS))

    def add_rate_limited(self, key: K) -> float:
        """Run `key` after its back-off, as in `add_after`; returns the back-off in seconds."""
        delay_seconds = self._limiter.fail(key, anyio.current_time())
        self.add_after(key, delay_seconds)
        return delay_seconds

    def forget(self, key: K) -> None:
        """Reset the back-off of `key` after a success."""
        self._limiter.backoff.forget(key)

    def failures(self, key: K) -> int:
        """Return the number of rate-limited adds of `key` since it was last forgotten."""
        return self._limiter.backoff.failures(key)

    async def get(self) -> K:
        """Wait for a key and take it. Only the caller has the key until it calls `done`.

        Await this in the task that will call `done`. A task or queue in between could be cancelled between
        taking a key and passing it on. Raises `QueueShutDown`.
        """
        while True:
            if self._shut_down:
                raise QueueShutDown(self.name)
            if self._ready:
                return self._take()
            await self._wait()

    def done(self, key: K) -> None:
        """Return `key`, which becomes ready now if it was added during its run.

        Raises `RuntimeError` for a key that is not running, which is a bug in the caller.
        """
        run = self._running.pop(key, None)
        if run is None:
            raise RuntimeError(f"{key!r} is done, but was not running in {self!r}")
        self._work_seconds.observe(anyio.current_time() - run.since)
        if run.again is not None:
            self._enqueue(key, run.again)
        if self._idle is not None and not self._running:
            self._idle.set()

    def shut_down(self) -> None:
        """Drop all waiting keys, ignore later adds, and make every `get` raise. Running keys stay."""
        self._shut_down = True
        for waiting in (self._ready, self._delayed, self._ready_heap, self._delayed_heap):
            waiting.clear()
        for run in self._running.values():
            run.again = None
        if self._timer is not None:
            self._timer.cancel()
        while self._getters:
            self._notify_getter()

    async def drain(self, deadline_seconds: float) -> bool:
        """Shut down and wait for the running keys; returns false if some are not done by the deadline."""
        self.shut_down()
        with anyio.move_on_after(deadline_seconds):
            while self._running:
                self._idle = self._idle or anyio.Event()
                await self._idle.wait()
        return not self._running

    def statistics(self) -> WorkQueueStatistics:
        """Return counters since the start and current gauges."""
        now = anyio.current_time()
        ages = [now - run.since for run in self._running.values()]
        return WorkQueueStatistics(
            depth=len(self._ready),
            delayed=len(self._delayed),
            adds_total=self._adds,
            retries_total=self._retries,
            queue_seconds=self._queue_seconds.statistics(),
            work_seconds=self._work_seconds.statistics(),
            unfinished_seconds=math.fsum(ages),
            longest_running_seconds=max(ages, default=0.0),
        )

    def _enqueue(self, key: K, order: Order) -> None:
        """Make a key that is not delayed ready, now or after its current run."""
        run = self._running.get(key)
        if run is None:
            self._make_ready(key, order)
        elif run.again is None:
            run.again = order
            self._adds += 1
        else:
            run.again = min(run.again, order)

    def _make_ready(self, key: K, order: Order) -> None:
        ready = self._ready.get(key)
        if ready is None:
            ready = _Ready(order, next(self._sequence), anyio.current_time())
            self._ready[key] = ready
            self._adds += 1
            self._notify_getter()
        elif order < ready.order:
            ready.order, ready.sequence = order, next(self._sequence)
        else:
            return
        heappush(self._ready_heap, (order, ready.sequence, key))
        if len(self._ready_heap) > 2 * len(self._ready) + _STALE_ALLOWED:
            self._ready_heap = [(ready.order, ready.sequence, key) for key, ready in self._ready.items()]
            heapify(self._ready_heap)

    def _delay(self, key: K, order: Order, due: float) -> None:
        delayed = self._delayed.get(key)
        if delayed is not None:
            delayed.order = order = min(delayed.order, order)
            if delayed.due <= due:
                return
        delayed = self._delayed[key] = _Delayed(order, next(self._sequence), due)
        heappush(self._delayed_heap, (due, delayed.sequence, key))
        if len(self._delayed_heap) > 2 * len(self._delayed) + _STALE_ALLOWED:
            self._delayed_heap = [(item.due, item.sequence, key) for key, item in self._delayed.items()]
            heapify(self._delayed_heap)
        self._set_timer(due)

    def _set_timer(self, due: float) -> None:
        """Set the only timer. It is never moved to a later time: firing without effect is cheaper."""
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = anyio.current_time()
        while self._delayed_heap and self._delayed_heap[0][0] <= now:
            _, sequence, key = heappop(self._delayed_heap)
            delayed = self._delayed.get(key)
            if delayed is not None and delayed.sequence == sequence:
                del self._delayed[key]
                self._enqueue(key, delayed.order)
        # This also applies if it fired slightly early: event loops may, within their clock's resolution.
        if self._delayed_heap:
            self._set_timer(self._delayed_heap[0][0])

    def _take(self) -> K:
        now = anyio.current_time()
        key = self._next_key(now)
        ready = self._ready.pop(key)
        self._running[key] = _Run(ready.order, now)
        self._queue_seconds.observe(now - ready.since)
        return key

    def _next_key(self, now: float) -> K:
        """Return the aged key whose turn it is, else the first in order."""
        self._turns_since_aged += 1
        if self._turns_since_aged >= AGED_TURN:
            key, ready = next(iter(self._ready.items()))
            if now - ready.since >= self._ageing_seconds:
                self._turns_since_aged = 0
                return key
        while True:
            _, sequence, key = heappop(self._ready_heap)
            waiting = self._ready.get(key)
            if waiting is not None and waiting.sequence == sequence:
                return key

    async def _wait(self) -> None:
        getter = anyio.Event()
        self._getters.append(getter)
        try:
            await getter.wait()
        except BaseException:
            if getter.is_set():  # Notified of a key that it will no longer take.
                self._notify_getter()
            else:
                self._getters.remove(getter)
            raise

    def _notify_getter(self) -> None:
        if self._getters:
            self._getters.popleft().set()
