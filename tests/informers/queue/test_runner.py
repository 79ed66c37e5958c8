"""The reconcile loop, R1 to R7: results, errors, timeouts, shutdown."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from informers.backoff import RetryLimiter
from informers.errors import Conflict, ServerError
from informers.queue.runner import ReconcileRunner, Result, TerminalError
from informers.queue.workqueue import WorkQueue
from tests.informers.queue.queues import LATE
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue("test", RetryLimiter.with_defaults(random.Random(1)))


class Script:
    """A reconcile that performs scripted steps, then succeeds; records the times of its calls."""

    def __init__(self, *steps: Result | Exception | Callable[[], Awaitable[object]]) -> None:
        self.steps = list(steps)
        self.calls: list[tuple[str, float]] = []

    async def __call__(self, key: str) -> Result:
        self.calls.append((key, anyio.current_time()))
        step = self.steps.pop(0) if self.steps else Result()
        if isinstance(step, Exception):
            raise step
        if not isinstance(step, Result):
            await step()
            return Result()
        return step

    @property
    def times(self) -> list[float]:
        return [at for _, at in self.calls]


@asynccontextmanager
async def running(runner: ReconcileRunner[str]) -> AsyncIterator[None]:
    """Run the runner during the block, and then stop it, so that its error is raised."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runner.run)
        yield
        await runner.stop(0)


def results(runner: ReconcileRunner[str]) -> dict[str, int]:
    return {label.value: count for label, count in runner.statistics().reconciles_total.items()}


def errors(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.levelno >= logging.ERROR]


async def test_all_results_are_counted_from_zero(queue: WorkQueue[str]) -> None:
    runner = ReconcileRunner(queue, Script())
    assert results(runner) == {"success": 0, "error": 0, "requeue": 0, "requeue_after": 0}


# Results and errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ServerError("no"), ValueError("no"), ExceptionGroup("no", [OSError()])])
async def test_R1_an_error_is_retried_after_a_backoff_and_logged_once(
    queue: WorkQueue[str], caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    reconcile = Script(error, error, error)
    runner = ReconcileRunner(queue, reconcile)
    queue.add("a")
    async with running(runner):
        await anyio.sleep(10)
    gaps = [later - earlier for earlier, later in zip(reconcile.times, reconcile.times[1:], strict=False)]
    assert gaps == pytest.approx([0.005, 0.01, 0.02], rel=0.25)
    assert results(runner) == {"success": 1, "error": 3, "requeue": 0, "requeue_after": 0}
    assert len(errors(caplog)) == 3
    logged = errors(caplog)[2]
    assert logged["message"] == "Reconcile failed"
    assert (logged["queue"], logged["key"], logged["failures"]) == ("test", "a", 3)
    assert logged["retry_after_seconds"] == pytest.approx(0.02, rel=0.25)
    assert logged["err"] == f"{type(error).__name__}: {error}"
    assert ("Traceback" in caplog.text) != isinstance(error, ServerError)


async def test_R1_a_retry_keeps_the_order_of_the_run(queue: WorkQueue[str]) -> None:
    release = anyio.Event()
    reconcile = Script(ValueError("no"), release.wait)
    queue.add("a", order=LATE)
    async with running(ReconcileRunner(queue, reconcile)):
        await anyio.sleep(0.001)
        queue.add("b")
        await anyio.sleep(1)
        assert queue.statistics().depth == 1
        queue.add("c")
        release.set()
        await anyio.sleep(1)
    assert [key for key, _ in reconcile.calls] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("result", [Result(), Result(requeue_after_seconds=1000)])
async def test_R2_success_forgets_the_failures(queue: WorkQueue[str], result: Result) -> None:
    reconcile = Script(ValueError("no"), ValueError("no"), result)
    queue.add("a")
    async with running(ReconcileRunner(queue, reconcile)):
        await anyio.sleep(1)
        assert len(reconcile.calls) == 3
        assert queue.failures("a") == 0


async def test_R2_requeue_after_must_be_requested_each_time(queue: WorkQueue[str]) -> None:
    reconcile = Script(Result(requeue_after_seconds=10), Result(requeue_after_seconds=10))
    runner = ReconcileRunner(queue, reconcile)
    queue.add("a")
    async with running(runner):
        await anyio.sleep(100)
    assert reconcile.times == pytest.approx([0, 10, 20])
    assert results(runner) == {"success": 1, "error": 0, "requeue": 0, "requeue_after": 2}


def test_a_requeue_time_that_is_not_a_number_is_rejected() -> None:
    with pytest.raises(ValueError, match="not a number"):
        Result(requeue_after_seconds=float("nan"))


async def test_R3_an_error_of_one_key_affects_no_other(queue: WorkQueue[str]) -> None:
    done: list[str] = []

    async def reconcile(key: str) -> Result:
        if key.startswith("bad"):
            raise RuntimeError(key)
        done.append(key)
        return Result()

    runner = ReconcileRunner(queue, reconcile, max_concurrent_reconciles=2)
    for number in range(50):
        queue.add(f"bad-{number}")
        queue.add(f"good-{number}")
    async with running(runner):
        await anyio.sleep(0.001)
        assert len(done) == 50
        await anyio.sleep(1)
        assert runner.statistics().errors_total > 100


async def test_R3_a_cancellation_raised_inside_a_reconcile_is_an_ordinary_error(
    queue: WorkQueue[str],
) -> None:
    async def await_a_cancelled_task() -> None:
        task = asyncio.create_task(anyio.sleep_forever())
        task.cancel()
        await task

    reconcile = Script(await_a_cancelled_task)
    runner = ReconcileRunner(queue, reconcile)
    queue.add("a")
    async with running(runner):
        await anyio.sleep(1)
        assert results(runner) == {"success": 1, "error": 1, "requeue": 0, "requeue_after": 0}


async def test_R3_cancelling_the_runner_is_not_an_error_and_returns_the_key(
    queue: WorkQueue[str], caplog: pytest.LogCaptureFixture
) -> None:
    runner = ReconcileRunner(queue, Script(anyio.sleep_forever))
    queue.add("a")
    with anyio.move_on_after(1):
        await runner.run()
    assert results(runner)["error"] == 0
    assert not errors(caplog)
    assert not queue._running
    assert runner.statistics().active_workers == 0


async def test_R4_a_terminal_error_is_not_retried_until_the_next_change(
    queue: WorkQueue[str], caplog: pytest.LogCaptureFixture
) -> None:
    reconcile = Script(ValueError("no"), TerminalError("the template is wrong"))
    runner = ReconcileRunner(queue, reconcile)
    queue.add("a")
    async with running(runner):
        await anyio.sleep(10_000)
        assert len(reconcile.calls) == 2
        logged = errors(caplog)[1]
        assert logged["message"] == "Reconcile failed permanently"
        assert (logged["key"], logged["err"]) == ("a", "the template is wrong")
        assert queue.failures("a") == 0
        queue.add("a")
        await anyio.sleep(1)
    assert len(reconcile.calls) == 3
    assert runner.statistics().terminal_errors_total == 1
    assert runner.statistics().errors_total == 2


async def test_R4_a_change_during_a_run_that_fails_permanently_is_reconciled(queue: WorkQueue[str]) -> None:
    async def change_then_fail() -> None:
        queue.add("a")
        raise TerminalError("for the old state")

    reconcile = Script(change_then_fail)
    queue.add("a")
    async with running(ReconcileRunner(queue, reconcile)):
        await anyio.sleep(1)
    assert len(reconcile.calls) == 2


async def test_R5_a_reconcile_over_its_timeout_is_cancelled_counted_and_retried(
    queue: WorkQueue[str], caplog: pytest.LogCaptureFixture
) -> None:
    reconcile = Script(anyio.sleep_forever)
    runner = ReconcileRunner(queue, reconcile, timeout_seconds=30)
    queue.add("a")
    async with running(runner):
        await anyio.sleep(29)
        assert runner.statistics().active_workers == 1
        await anyio.sleep(2)
    assert reconcile.times == pytest.approx([0, 30.005], abs=0.002)
    statistics = runner.statistics()
    assert (statistics.timeouts_total, statistics.errors_total) == (1, 1)
    assert "no result after 30 s" in errors(caplog)[0]["err"]
    assert statistics.reconcile_seconds.sum == pytest.approx(30)


async def test_R5_a_timeout_inside_the_reconcile_is_its_own_error(queue: WorkQueue[str]) -> None:
    runner = ReconcileRunner(queue, Script(TimeoutError("of a request")), timeout_seconds=30)
    queue.add("a")
    async with running(runner):
        await anyio.sleep(1)
    assert (runner.statistics().timeouts_total, runner.statistics().errors_total) == (0, 1)


async def test_R7_a_conflict_is_retried_soon_and_quietly(
    queue: WorkQueue[str], caplog: pytest.LogCaptureFixture
) -> None:
    reconcile = Script(Conflict("changed meanwhile", status=409))
    runner = ReconcileRunner(queue, reconcile)
    queue.add("a")
    async with running(runner):
        await anyio.sleep(1)
    assert reconcile.times == pytest.approx([0, 0.005], abs=0.002)
    assert not errors(caplog)
    assert results(runner) == {"success": 1, "error": 0, "requeue": 1, "requeue_after": 0}


async def test_R7_the_caller_chooses_the_quiet_errors(
    queue: WorkQueue[str], caplog: pytest.LogCaptureFixture
) -> None:
    runner = ReconcileRunner(queue, Script(Conflict("no"), KeyError("not yet")), quiet=(KeyError,))
    queue.add("a")
    async with running(runner):
        await anyio.sleep(1)
    assert results(runner) == {"success": 1, "error": 1, "requeue": 1, "requeue_after": 0}
    assert len(errors(caplog)) == 1


# Concurrency -----------------------------------------------------------------------------------------


async def test_Q4_all_workers_are_used_and_no_more(queue: WorkQueue[str]) -> None:
    active = peak = 0

    async def reconcile(_key: str) -> Result:
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        await anyio.sleep(1)
        active -= 1
        return Result()

    runner = ReconcileRunner(queue, reconcile, max_concurrent_reconciles=4)
    for number in range(20):
        queue.add(str(number))
    async with running(runner):
        await anyio.sleep(0.5)
        assert repr(runner) == "<ReconcileRunner 'test' active=4/4 errors=0>"
        await anyio.sleep(4.6)
        assert results(runner)["success"] == 20
    assert peak == 4


async def test_a_reconcile_that_never_waits_does_not_block_the_loop(queue: WorkQueue[str]) -> None:
    runs = 0

    async def reconcile(key: str) -> Result:
        nonlocal runs
        runs += 1
        queue.add(key)
        return Result()

    queue.add("hot")
    async with running(ReconcileRunner(queue, reconcile)):
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        assert 10 < runs < 110


def test_zero_workers_are_rejected(queue: WorkQueue[str]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ReconcileRunner(queue, Script(), max_concurrent_reconciles=0)


# Shutdown --------------------------------------------------------------------------------------------


async def test_Q14_stop_takes_no_more_keys_and_lets_running_reconciles_finish(queue: WorkQueue[str]) -> None:
    finished: list[str] = []

    async def reconcile(key: str) -> Result:
        await anyio.sleep(5)
        finished.append(key)
        return Result(requeue_after_seconds=1)

    runner = ReconcileRunner(queue, reconcile, max_concurrent_reconciles=2)
    for key in "abc":
        queue.add(key)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runner.run)
        await anyio.sleep(1)
        assert await runner.stop(10)
        assert anyio.current_time() == 5
    assert finished == ["a", "b"]


async def test_Q14_stop_cancels_reconciles_at_the_deadline(
    queue: WorkQueue[str], caplog: pytest.LogCaptureFixture
) -> None:
    cleaned_up = False

    async def reconcile(_key: str) -> Result:
        nonlocal cleaned_up
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            cleaned_up = True
        return Result()

    runner = ReconcileRunner(queue, reconcile)
    queue.add("a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runner.run)
        await anyio.sleep(1)
        assert not await runner.stop(3)
        assert cleaned_up
        assert anyio.current_time() == pytest.approx(5)
    assert not errors(caplog)
    assert not queue._running


async def test_Q13_stop_before_run_or_twice_is_safe(queue: WorkQueue[str]) -> None:
    runner = ReconcileRunner(queue, Script())
    assert await runner.stop(1)
    await runner.run()
    assert await runner.stop(1)
