"""Workers that take keys from a queue, reconcile them, and decide when each is due again.

A reconcile says with `Result` that it is content, or by when it wants to be called again; whatever it
raises is counted and retried after a back-off, and never ends a worker or another key's run. What a result
or an error means for the key is decided in one synchronous step (`_settle`) before the key is given back, so
that nothing comes in between. A worker ends only when the queue shuts down or when it is cancelled.

Not done here: reading objects, writing status, or deciding which events concern which key.
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
    """What a reconcile that did not fail wants.

    Without `requeue_after_seconds` the key is due again at its next change only. With it, it is due after
    that time at the latest; a change in between drops the wish, so that every reconcile has to ask again.

    Raises:
        ValueError: the time is not a number.
    """

    requeue_after_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.requeue_after_seconds is not None and math.isnan(self.requeue_after_seconds):
            raise ValueError("requeue_after_seconds is not a number")


class TerminalError(Exception):
    """Raised by a reconcile for what no retry can mend: the key is due again at its next change only."""


class ReconcileTimeout(Exception):
    """A reconcile was cancelled because it took longer than its time limit. It is retried like any error."""


class StrayCancellation(Exception):
    """A reconcile let out a cancellation that was not meant for it (such as that of a task it awaited)."""


class ResultLabel(Enum):
    """The `result` label of `controller_runtime_reconcile_total`."""

    SUCCESS = "success"
    ERROR = "error"
    REQUEUE = "requeue"
    """A quiet error, by default a conflict: to be done again from fresh data, not worth a word."""
    REQUEUE_AFTER = "requeue_after"


@dataclass(frozen=True)
class RunnerStatistics:
    """What controller-runtime reports as `controller_runtime_*`; all outcomes are there from the start."""

    reconciles_total: Mapping[ResultLabel, int]
    terminal_errors_total: int
    """Part of the errors."""
    timeouts_total: int
    """Part of the errors."""
    reconcile_seconds: HistogramStatistics
    active_workers: int
    max_concurrent_reconciles: int

    @property
    def errors_total(self) -> int:
        """All errors but quiet ones."""
        return self.reconciles_total[ResultLabel.ERROR]


class ReconcileRunner(Generic[K]):
    """Runs `reconcile(key)` for the keys of `queue`, at most `max_concurrent_reconciles` at a time.

    `timeout_seconds` limits each run: it is cancelled and retried. `quiet` are the errors that are retried
    without a line in the log. `run` may be awaited once.
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
        # Both are there once `run` was called; cancelling the scope ends the workers.
        self._workers: anyio.CancelScope | None = None
        self._stopped: anyio.Event | None = None
        # Workers between taking a key and giving it back.
        self._active = 0
        self._outcomes = dict.fromkeys(ResultLabel, 0)
        self._terminal_errors = 0
        self._timeouts = 0
        self._seconds = Histogram()

    def __repr__(self) -> str:
        workers = f"active={self._active}/{self._max_concurrent_reconciles}"
        return f"<ReconcileRunner {self._queue.name!r} {workers} errors={self._outcomes[ResultLabel.ERROR]}>"

    async def run(self) -> None:
        """Work until the queue shuts down; being cancelled cancels the running reconciles."""
        self._stopped = anyio.Event()
        try:
            async with anyio.create_task_group() as workers:
                self._workers = workers.cancel_scope
                for number in range(self._max_concurrent_reconciles):
                    workers.start_soon(self._work, name=f"{self._queue.name}-worker-{number}")
        finally:
            self._stopped.set()

    async def stop(self, deadline_seconds: float) -> bool:
        """Take no more keys, let running reconciles finish, and cancel those that run after the deadline.

        Returns when `run` has ended, with whether all finished by themselves.
        """
        drained = await self._queue.drain(deadline_seconds)
        if self._workers is not None and not drained:
            logger.warning("%r: cancelling what still runs after %g s", self, deadline_seconds)
            self._workers.cancel()
        if self._stopped is not None:
            await self._stopped.wait()
        return drained

    def statistics(self) -> RunnerStatistics:
        """Counters since the start, and gauges as of now."""
        return RunnerStatistics(
            reconciles_total=dict(self._outcomes),
            terminal_errors_total=self._terminal_errors,
            timeouts_total=self._timeouts,
            reconcile_seconds=self._seconds.statistics(),
            active_workers=self._active,
            max_concurrent_reconciles=self._max_concurrent_reconciles,
        )

    async def _work(self) -> None:
        while await self._step():
            # A reconcile that finds nothing to wait for must not keep the loop from everything else.
            await anyio.lowlevel.checkpoint()

    async def _step(self) -> bool:
        """Reconcile one key; false when there will be no more."""
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
        """Run the reconcile; an error is an answer like any other, only our own cancellation is raised."""
        try:
            with anyio.move_on_after(self._timeout_seconds):
                return await self._reconcile(key)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is settled as data
            return error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return StrayCancellation("the reconcile let out a cancellation from inside")
        return ReconcileTimeout(f"no result after {self._timeout_seconds:g} s")

    def _settle(self, key: K, outcome: Result | Exception) -> None:
        """Count the outcome and say when the key is due again."""
        if isinstance(outcome, Result):
            self._queue.forget(key)
            if outcome.requeue_after_seconds is None:
                self._outcomes[ResultLabel.SUCCESS] += 1
            else:
                self._outcomes[ResultLabel.REQUEUE_AFTER] += 1
                self._queue.add_after(key, outcome.requeue_after_seconds)
        elif isinstance(outcome, self._quiet):
            self._outcomes[ResultLabel.REQUEUE] += 1
            delay_seconds = self._queue.add_rate_limited(key)
            logger.debug("%s %s: again in %.3f s: %s", self._queue.name, key, delay_seconds, outcome)
        else:
            self._settle_error(key, outcome)

    def _settle_error(self, key: K, error: Exception) -> None:
        self._outcomes[ResultLabel.ERROR] += 1
        if isinstance(error, TerminalError):
            self._terminal_errors += 1
            self._queue.forget(key)
            logger.error("%s %s: failed for good: %s", self._queue.name, key, error)
            return
        if isinstance(error, ReconcileTimeout):
            self._timeouts += 1
        delay_seconds = self._queue.add_rate_limited(key)
        # What the API server says is in its message; only of an unforeseen error the place is news.
        foreseen = isinstance(error, (ApiError, ReconcileTimeout))
        logger.error(
            "%s %s: failed (%d in a row), again in %.3f s: %s: %s",
            self._queue.name,
            key,
            self._queue.failures(key),
            delay_seconds,
            type(error).__name__,
            error,
            exc_info=None if foreseen else error,
        )
