"""The virtual clock of the tests: jumps, exactness, deadlocks, loop internals."""

from __future__ import annotations

import asyncio
import time

import anyio
import anyio.lowlevel
import pytest

from tests.virtualtime import VIRTUAL_BACKEND, Deadlock, Livelock, VirtualBackend, block, run_virtual

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


async def test_virtual_hours_pass_immediately_and_exactly() -> None:
    started = time.perf_counter()
    await anyio.sleep(80_000.25)
    assert anyio.current_time() == 80_000.25
    assert time.perf_counter() - started < 1


async def test_sums_of_sleeps_do_not_drift() -> None:
    for _ in range(3):
        await anyio.sleep(0.1)
    assert anyio.current_time() == 0.3


async def test_timeouts_of_asyncio_and_anyio_follow_the_clock() -> None:
    with anyio.move_on_after(0.3) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert anyio.current_time() == pytest.approx(0.3, abs=2e-9)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await asyncio.Event().wait()
    assert anyio.current_time() == pytest.approx(10.3, abs=2e-9)


async def test_a_scope_whose_deadline_is_not_a_whole_nanosecond_ends() -> None:
    await anyio.sleep(0.2)
    with anyio.move_on_after(0.1) as scope:  # 0.30000000000000004
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_concurrent_sleepers_resume_in_order_of_time() -> None:
    resumed: list[float] = []

    async def sleeper(seconds: float) -> None:
        await anyio.sleep(seconds)
        resumed.append(anyio.current_time())

    async with anyio.create_task_group() as tasks:
        for seconds in (3.0, 1.0, 2.0):
            tasks.start_soon(sleeper, seconds)
    assert resumed == [1.0, 2.0, 3.0]


async def test_timers_fire_after_centuries() -> None:
    with anyio.move_on_after(300 * 365 * 86_400):
        await anyio.sleep_forever()
    await anyio.sleep(0.001)
    with anyio.move_on_after(0.001):
        await anyio.sleep_forever()


async def test_blocking_makes_timers_late() -> None:
    async def blocker() -> None:
        block(12)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(blocker)
        await anyio.sleep(1)
        assert anyio.current_time() == 12


def test_deadlock_names_the_tasks_and_where_they_wait() -> None:
    async def never_set() -> None:
        await anyio.Event().wait()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(never_set, name="the-culprit")

    with pytest.raises(Deadlock, match=r"the-culprit: .*never_set"):
        run_virtual(main)


def test_a_livelock_is_reported_instead_of_hanging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("simulation.engine.virtual_loop.ITERATIONS_MAX", 1000)

    async def spin() -> None:
        while True:
            await anyio.lowlevel.checkpoint()

    with pytest.raises(Livelock, match="1000 iterations without time passing"):
        run_virtual(spin)


def test_threads_are_rejected() -> None:
    async def main() -> None:
        await asyncio.to_thread(time.monotonic)

    with pytest.raises(RuntimeError, match="no threads"):
        run_virtual(main)


def test_run_virtual_passes_arguments_and_the_result() -> None:
    async def double(number: int) -> int:
        await anyio.sleep(3600)
        return 2 * number

    assert run_virtual(double, 21) == 42
