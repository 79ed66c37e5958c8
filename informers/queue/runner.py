"""Workers that take keys from a queue, reconcile them, and requeue them.

A reconcile returns a `Result`, optionally with a time by which it wants to run again. An exception is
counted and retried after a back-off; it never ends a worker or another key's run. One synchronous step
(`_settle`) applies a result or error to the key before `done`. A worker ends only if the queue shuts down or
if it is cancelled.

Not done here: reading objects, writing status, mapping events to keys.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel

from informers.errors import ApiError, Conflict
from informers.histogram import Histogram, HistogramStatistics
from informers.queue.workqueue import QueueShutDown, WorkQueue

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a successful reconcile.

    Without `requeue_after_seconds` the key runs again only at its next change. With it, the key runs again
    within that time. A change before that drops the request, so every reconcile must repeat it. Raises
    `ValueError` for NaN.
    """

    requeue_after_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.requeue_after_seconds is not None and math.isnan(self.requeue_after_seconds):
            raise ValueError("requeue_after_seconds is not a number")


class TerminalError(Exception):
    """Raised by a reconcile if no retry can help: the key runs again only at its next change."""


class ReconcileTimeout(Exception):
    """A reconcile exceeded its timeout and was cancelled. It is retried like any error."""


class LeakedCancellation(Exception):
    """A reconcile raised a cancellation of something else, such as a task that it awaited."""


class ResultLabel(Enum):
    """The `result` label of `controller_runtime_reconcile_total`."""

    SUCCESS = "success"
    ERROR = "error"
    REQUEUE = "requeue"
    """A quiet error, by default a conflict: retried with current data, not logged as an error."""
    REQUEUE_AFTER = "requeue_after"


@dataclass(frozen=True)
class RunnerStatistics:
    """The values of `controller_runtime_*` metrics; every result is counted from 0."""

    reconciles_total: Mapping[ResultLabel, int]
    terminal_errors_total: int
    timeouts_total: int
    reconcile_seconds: HistogramStatistics
    active_workers: int
    max_concurrent_reconciles: int

    @property
    def errors_total(self) -> int:
        """Errors except quiet ones."""
        return self.reconciles_total[ResultLabel.ERROR]


class ReconcileRunner(Generic[K]):
    """Runs `reconcile(key)` for the keys of `queue`, at most `max_concurrent_reconciles` at a time.

    A run over `timeout_seconds` is cancelled and retried. `quiet` errors are retried and logged at debug
    level only. `run` may be awaited once.
    """

    def __init__(
        self,
        queue: WorkQueue[K],
        reconcile: Callable[[K], Awaitable[Result]],
        *,
        max_concurrent_reconciles: int = 1,
        timeout_seconds: float | None = None,
        quiet: tuple[type[Exception], ...] = (Conflict,),
    ) -> None:
        if max_concurrent_reconciles < 1:
            raise ValueError(f"max_concurrent_reconciles must be at least 1, got {max_concurrent_reconciles}")
        self._queue = queue
        self._reconcile = reconcile
        self._max_concurrent_reconciles = max_concurrent_reconciles
        self._timeout_seconds = timeout_seconds
        self._quiet = quiet
        # Both are set by `run`; cancelling the scope ends the workers.
        self._workers: anyio.CancelScope | None = None
        self._stopped: anyio.Event | None = None
        # Workers between `get` and `done`.
        self._active = 0
        self._results = dict.fromkeys(ResultLabel, 0)
        self._terminal_errors = 0
        self._timeouts = 0
        self._seconds = Histogram()

    def __repr__(self) -> str:
        workers = f"active={self._active}/{self._max_concurrent_reconciles}"
        return f"<ReconcileRunner {self._queue.name!r} {workers} errors={self._results[ResultLabel.ERROR]}>"

    async def run(self) -> None:
        """Work until the queue shuts down; cancelling it cancels the running reconciles."""
        self._stopped = anyio.Event()
        try:
            async with anyio.create_task_group() as workers:
                self._workers = workers.cancel_scope
                for number in range(self._max_concurrent_reconciles):
                    workers.start_soon(self._work, name=f"{self._queue.name}-worker-{number}")
        finally:
            self._stopped.set()

    async def stop(self, deadline_seconds: float) -> bool:
        """Take no more keys, let running reconciles finish, and cancel the rest at the deadline.

        Returns when `run` has ended, true if all reconciles finished by themselves.
        """
        drained = await self._queue.drain(deadline_seconds)
        if self._workers is not None and not drained:
            context = {"queue": self._queue.name, "deadline_seconds": deadline_seconds}
            logger.warning("Cancelled reconciles at the stop deadline", extra=context)
            self._workers.cancel()
        if self._stopped is not None:
            await self._stopped.wait()
        return drained

    def statistics(self) -> RunnerStatistics:
        """Return counters since the start and current gauges."""
        return RunnerStatistics(
            reconciles_total=dict(self._results),
            terminal_errors_total=self._terminal_errors,
            timeouts_total=self._timeouts,
            reconcile_seconds=self._seconds.statistics(),
            active_workers=self._active,
            max_concurrent_reconciles=self._max_concurrent_reconciles,
        )

    async def _work(self) -> None:
        while await self._step():
            # A reconcile that never waits must not block the event loop.
            await anyio.lowlevel.checkpoint()

    async def _step(self) -> bool:
        """Reconcile one key; false if the queue is shut down."""
        try:
            key = await self._queue.get()
        except QueueShutDown:
            return False
        started = anyio.current_time()
        self._active += 1
        try:
            self._settle(key, await self._attempt(key))
        finally:
            self._active -= 1
            self._seconds.observe(anyio.current_time() - started)
            self._queue.done(key)
        return True

    async def _attempt(self, key: K) -> Result | Exception:
        """Run the reconcile and return its result or error; only our own cancellation is raised."""
        try:
            with anyio.move_on_after(self._timeout_seconds):
                return await self._reconcile(key)
        except Exception as error:  # noqa: BLE001 - returned for `_settle`
            return error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return LeakedCancellation("the reconcile raised a cancellation of something else")
        return ReconcileTimeout(f"no result after {self._timeout_seconds:g} s")

    def _settle(self, key: K, result: Result | Exception) -> None:
        """Count the result and requeue the key."""
        if isinstance(result, Result):
            self._queue.forget(key)
            if result.requeue_after_seconds is None:
                self._results[ResultLabel.SUCCESS] += 1
            else:
                self._results[ResultLabel.REQUEUE_AFTER] += 1
                self._queue.add_after(key, result.requeue_after_seconds)
        elif isinstance(result, self._quiet):
            self._results[ResultLabel.REQUEUE] += 1
            delay_seconds = self._queue.add_rate_limited(key)
            context = {"retry_after_seconds": round(delay_seconds, 3), "err": str(result)}
            logger.debug("Requeued key", extra=self._context(key) | context)
        else:
            self._settle_error(key, result)

    def _settle_error(self, key: K, error: Exception) -> None:
        self._results[ResultLabel.ERROR] += 1
        if isinstance(error, TerminalError):
            self._terminal_errors += 1
            self._queue.forget(key)
            logger.error("Reconcile failed permanently", extra=self._context(key) | {"err": str(error)})
            return
        if isinstance(error, ReconcileTimeout):
            self._timeouts += 1
        delay_seconds = self._queue.add_rate_limited(key)
        context: dict[str, object] = {
            "failures": self._queue.failures(key),
            "retry_after_seconds": round(delay_seconds, 3),
            "err": f"{type(error).__name__}: {error}",
        }
        # An API error is explained by its message; an unexpected error also needs its traceback.
        expected = isinstance(error, (ApiError, ReconcileTimeout))
        exc_info = None if expected else error
        logger.error("Reconcile failed", extra=self._context(key) | context, exc_info=exc_info)

    def _context(self, key: K) -> dict[str, object]:
        return {"queue": self._queue.name, "key": str(key)}
