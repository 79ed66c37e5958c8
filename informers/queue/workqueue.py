"""Keys to reconcile: each at most once in the queue and at most once in work.

client-go's queue with its layers (dedup, delay, rate limit, metrics), whose invariants are stated on the
fields that hold the state. What it promises:

* a key that is added while it waits runs once; added while it is in work it runs once more, after `done`;
* a delayed key runs at the earliest of its times, and an immediate add makes it run now and drops the delay:
  a reconcile that wants to be called again has to say so each time;
* order: the smallest (-priority, order, sequence) first; the unique sequence counts when keys became ready
  or were raised. Higher priority first, then the caller's `order` (keys without one first), then first come,
  first served. A key that is added again keeps the better of its ranks;
* no starvation: at the latest every `AGED_TURN`-th turn goes to the key that has been ready longest, if that
  is `ageing_seconds` or more. A flood of aged low keys delays a fresh high one by no more than one turn;
* retries are limited per key and together, fresh events never;
* `get` takes a key in the step in which it returns: cancelling it loses none.

Not promised: n runs for n adds, and any order between keys in work. Keys do not survive `shut_down`; the next
start finds them again. All methods belong to one event loop and its thread.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

import anyio

from informers.backoff import RetryLimiter
from informers.histogram import Histogram, HistogramStatistics

K = TypeVar("K", bound=Hashable)

# Compared between keys of one priority: every key of a queue that has one needs the same shape.
Order = tuple[float | str, ...]
_Rank = tuple[int, Order]

# The level of keys that nobody waits for: the initial list and periodic resyncs (as in controller-runtime).
PRIORITY_LOW = -100

AGEING_SECONDS = 30.0
AGED_TURN = 8

# Longer than any sensible delay, short enough that no clock arithmetic or timer implementation overflows.
DELAY_MAX_SECONDS = 180 * 86_400.0

# Superseded heap entries stay, to be skipped; the heap is rebuilt when they outnumber the live ones by this.
_STALE_ALLOWED = 64


class QueueShutDown(Exception):
    """Raised by `get` once the queue is shut down: the worker should end."""


@dataclass(frozen=True)
class WorkQueueStatistics:
    """What client-go reports as `workqueue_*`, in seconds and counts."""

    depth_by_priority: Mapping[int, int]
    """Keys ready to be taken, also 0 for each priority that was ever used."""
    delayed: int
    running: int
    waiting_getters: int
    failing: int
    """Keys with a back-off that was not forgotten."""
    adds_total: int
    """Keys that became due for a run; adds that were merged into one are not counted."""
    retries_total: int
    """Calls of `add_after` and `add_rate_limited`."""
    queue_seconds: HistogramStatistics
    """From ready to taken."""
    work_seconds: HistogramStatistics
    """From taken to done."""
    unfinished_seconds: float
    """Sum over the keys in work of the time since they were taken."""
    longest_running_seconds: float
    shut_down: bool


@dataclass(slots=True)
class _Ready:
    rank: _Rank
    sequence: int
    since: float


@dataclass(slots=True)
class _Delayed:
    rank: _Rank
    sequence: int
    due: float


@dataclass(slots=True)
class _Run:
    rank: _Rank
    since: float
    again: _Rank | None = None


class WorkQueue(Generic[K]):
    """See the module. `name` is for the log and metrics; `limiter` decides about retries."""

    def __init__(
        self, name: str, limiter: RetryLimiter[K], *, ageing_seconds: float = AGEING_SECONDS
    ) -> None:
        self.name = name
        self._limiter = limiter
        self._ageing_seconds = ageing_seconds

        # A key is in at most one of: `_ready`, `_delayed`, `_running` with `again` set.
        # In the order in which keys became ready. No key of it is in `_running`.
        self._ready: OrderedDict[K, _Ready] = OrderedDict()
        # Waiting for its time; it may be in work as well.
        self._delayed: dict[K, _Delayed] = {}
        # Given out by `get` and not yet `done`; `again`: it has to run once more after that.
        self._running: dict[K, _Run] = {}

        # Each value of `_ready` / `_delayed` has its (rank | due, sequence) in here; other entries are stale.
        self._ready_heap: list[tuple[_Rank, int, K]] = []
        self._delayed_heap: list[tuple[float, int, K]] = []
        # Set, for `_timer_due` or earlier, whenever a key is delayed until then.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = math.inf
        # Sleeping getters. None sleeps, or as many are woken and have not run yet as keys are ready.
        self._getters: deque[anyio.Event] = deque()
        self._idle: anyio.Event | None = None
        self._shut_down = False

        self._sequence = itertools.count()
        self._turns_since_aged = 0
        self._depth: dict[int, int] = {0: 0}
        self._adds = 0
        self._retries = 0
        self._queue_seconds = Histogram()
        self._work_seconds = Histogram()

    def __repr__(self) -> str:
        state = " shut down" if self._shut_down else ""
        counts = f"ready={len(self._ready)} delayed={len(self._delayed)} running={len(self._running)}"
        return f"<WorkQueue {self.name!r} {counts} getters={len(self._getters)}{state}>"

    def __len__(self) -> int:
        """Keys that are ready to be taken."""
        return len(self._ready)

    def add(self, key: K, *, priority: int = 0, order: Order = ()) -> None:
        """Have `key` run as soon as its turn comes; a delay that it waits for is dropped."""
        if self._shut_down:
            return
        rank = (-priority, order)
        delayed = self._delayed.pop(key, None)
        self._enqueue(key, rank if delayed is None else min(rank, delayed.rank))

    def add_after(
        self, key: K, delay_seconds: float, *, priority: int | None = None, order: Order | None = None
    ) -> None:
        """Have `key` run in `delay_seconds` at the latest; a key that is already due earlier stays so.

        Without `priority` and `order` a key in work keeps those of its run. Delays over
        `DELAY_MAX_SECONDS` are clamped, a delay of 0 or less is an immediate add.

        Raises:
            ValueError: the delay is not a number.
        """
        if math.isnan(delay_seconds):
            raise ValueError(f"the delay of {key!r} is not a number")
        if self._shut_down:
            return
        self._retries += 1
        rank = self._rank(key, priority, order)
        run = self._running.get(key)
        if key in self._ready or (run is not None and run.again is not None):
            self._enqueue(key, rank)
        elif delay_seconds <= 0:
            self.add(key, priority=-rank[0], order=rank[1])
        else:
            self._delay(key, rank, anyio.current_time() + min(delay_seconds, DELAY_MAX_SECONDS))

    def add_rate_limited(self, key: K, *, priority: int | None = None, order: Order | None = None) -> float:
        """Have `key` run after its back-off, as in `add_after`; returns the back-off in seconds."""
        delay_seconds = self._limiter.fail(key, anyio.current_time())
        self.add_after(key, delay_seconds, priority=priority, order=order)
        return delay_seconds

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts with the shortest back-off."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Rate-limited adds of `key` since it was last forgotten."""
        return self._limiter.failures(key)

    async def get(self) -> K:
        """Wait for a key and take it. The caller owns it, and no one else gets it, until it calls `done`.

        To be awaited by the task that will call `done`, not through a task or queue in between: there a
        cancellation can come between taking and handing over.

        Raises:
            QueueShutDown: there will be no more keys.
        """
        while True:
            if self._shut_down:
                raise QueueShutDown(self.name)
            if self._ready:
                return self._take()
            await self._sleep()

    def done(self, key: K) -> None:
        """Give `key` back. If it was added meanwhile it becomes ready now.

        Raises:
            RuntimeError: the key is not in work, which is a fault of the caller.
        """
        run = self._running.pop(key, None)
        if run is None:
            raise RuntimeError(f"{key!r} is done, but was not in work in {self!r}")
        self._work_seconds.observe(anyio.current_time() - run.since)
        if run.again is not None:
            self._enqueue(key, run.again)
        if self._idle is not None and not self._running:
            self._idle.set()

    def shut_down(self) -> None:
        """Drop all waiting keys, ignore later adds, and have every `get` raise. Keys in work stay so."""
        self._shut_down = True
        for waiting in (self._ready, self._delayed, self._ready_heap, self._delayed_heap):
            waiting.clear()
        for run in self._running.values():
            run.again = None
        self._depth = dict.fromkeys(self._depth, 0)
        if self._timer is not None:
            self._timer.cancel()
        while self._getters:
            self._activate_one()

    async def drain(self, deadline_seconds: float) -> bool:
        """Shut down and wait for the keys in work; false if some are not done after `deadline_seconds`."""
        self.shut_down()
        with anyio.move_on_after(deadline_seconds):
            while self._running:
                self._idle = self._idle or anyio.Event()
                await self._idle.wait()
        return not self._running

    def statistics(self) -> WorkQueueStatistics:
        """Counters since the start, and gauges as of now."""
        now = anyio.current_time()
        ages = [now - run.since for run in self._running.values()]
        return WorkQueueStatistics(
            depth_by_priority=dict(self._depth),
            delayed=len(self._delayed),
            running=len(self._running),
            waiting_getters=len(self._getters),
            failing=self._limiter.keys,
            adds_total=self._adds,
            retries_total=self._retries,
            queue_seconds=self._queue_seconds.statistics(),
            work_seconds=self._work_seconds.statistics(),
            unfinished_seconds=math.fsum(ages),
            longest_running_seconds=max(ages, default=0.0),
            shut_down=self._shut_down,
        )

    # Becoming ready ----------------------------------------------------------------------------------

    def _rank(self, key: K, priority: int | None, order: Order | None) -> _Rank:
        run = self._running.get(key)
        if priority is None and order is None and run is not None:
            return run.rank
        return (-(priority or 0), order or ())

    def _enqueue(self, key: K, rank: _Rank) -> None:
        """Have a key that is not delayed run as soon as it may: now, or after the run it is in."""
        run = self._running.get(key)
        if run is None:
            self._make_ready(key, rank)
        elif run.again is None:
            run.again = rank
            self._adds += 1
        else:
            run.again = min(run.again, rank)

    def _make_ready(self, key: K, rank: _Rank) -> None:
        ready = self._ready.get(key)
        if ready is None:
            ready = _Ready(rank, next(self._sequence), anyio.current_time())
            self._ready[key] = ready
            self._adds += 1
            self._activate_one()
        elif rank < ready.rank:
            self._depth[-ready.rank[0]] -= 1
            ready.rank, ready.sequence = rank, next(self._sequence)
        else:
            return
        self._depth[-rank[0]] = self._depth.get(-rank[0], 0) + 1
        heappush(self._ready_heap, (rank, ready.sequence, key))
        if len(self._ready_heap) > 2 * len(self._ready) + _STALE_ALLOWED:
            self._ready_heap = [(ready.rank, ready.sequence, key) for key, ready in self._ready.items()]
            heapify(self._ready_heap)

    # Waiting for a time ------------------------------------------------------------------------------

    def _delay(self, key: K, rank: _Rank, due: float) -> None:
        delayed = self._delayed.get(key)
        if delayed is not None:
            delayed.rank = rank = min(delayed.rank, rank)
            if delayed.due <= due:
                return
        delayed = self._delayed[key] = _Delayed(rank, next(self._sequence), due)
        heappush(self._delayed_heap, (due, delayed.sequence, key))
        if len(self._delayed_heap) > 2 * len(self._delayed) + _STALE_ALLOWED:
            self._delayed_heap = [(item.due, item.sequence, key) for key, item in self._delayed.items()]
            heapify(self._delayed_heap)
        self._set_timer(due)

    def _set_timer(self, due: float) -> None:
        """One timer at most, never moved to a later time: firing for nothing is cheaper than moving it."""
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
                self._enqueue(key, delayed.rank)
        # Also when it fired a little early, which event loops may do by the resolution of their clock.
        if self._delayed_heap:
            self._set_timer(self._delayed_heap[0][0])

    # Being taken -------------------------------------------------------------------------------------

    def _take(self) -> K:
        now = anyio.current_time()
        key = self._next_key(now)
        ready = self._ready.pop(key)
        self._running[key] = _Run(ready.rank, now)
        self._depth[-ready.rank[0]] -= 1
        self._queue_seconds.observe(now - ready.since)
        return key

    def _next_key(self, now: float) -> K:
        """The aged key whose turn it is, or else the first in rank."""
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

    async def _sleep(self) -> None:
        getter = anyio.Event()
        self._getters.append(getter)
        try:
            await getter.wait()
        except BaseException:
            if getter.is_set():  # Woken for a key that it will not take any more.
                self._activate_one()
            else:
                self._getters.remove(getter)
            raise

    def _activate_one(self) -> None:
        if self._getters:
            self._getters.popleft().set()
