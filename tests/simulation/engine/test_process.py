"""Processes on the virtual loop: frozen ones, dead ones, and their own clock rates."""

from __future__ import annotations

import anyio
import pytest

from simulation.engine.process import VirtualProcess, in_process
from simulation.engine.virtual_loop import VIRTUAL_BACKEND, VirtualBackend, running_virtual_loop

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


async def ticker(ticks: list[float]) -> None:
    try:
        while True:
            await anyio.sleep(1)
            ticks.append(anyio.current_time())
    finally:
        ticks.append(-1.0)


async def test_a_thawed_process_continues_where_it_was() -> None:
    ticks: list[float] = []
    process, loop = VirtualProcess("frozen"), running_virtual_loop()
    async with anyio.create_task_group() as tasks:
        with in_process(process):
            tasks.start_soon(ticker, ticks)
        await anyio.sleep(2.5)
        loop.freeze(process)
        await anyio.sleep(10)
        assert ticks == [1.0, 2.0]
        loop.thaw(process)
        await anyio.sleep(1.1)
        tasks.cancel_scope.cancel()

    assert ticks == [1.0, 2.0, 12.5, 13.5, -1.0]


async def test_a_dead_process_runs_no_code_not_even_clean_up() -> None:
    ticks: list[float] = []
    process, loop = VirtualProcess("dead"), running_virtual_loop()
    async with anyio.create_task_group() as tasks:
        with in_process(process):
            tasks.start_soon(ticker, ticks)
        await anyio.sleep(1.5)
        loop.kill(process)
        await anyio.sleep(10)
        assert ticks == [1.0]
        # After a run, so that its tasks can be cancelled like all others.
        loop.release(process)
        tasks.cancel_scope.cancel()

    assert ticks[-1] == -1.0


async def test_a_process_killed_while_frozen_is_not_thawed() -> None:
    ticks: list[float] = []
    process, loop = VirtualProcess("frozen and dead"), running_virtual_loop()
    async with anyio.create_task_group() as tasks:
        with in_process(process):
            tasks.start_soon(ticker, ticks)
        await anyio.sleep(0.5)
        loop.freeze(process)
        loop.kill(process)
        loop.thaw(process)
        await anyio.sleep(5)
        assert ticks == []
        loop.release(process)
        tasks.cancel_scope.cancel()


async def test_tasks_belong_to_the_process_that_started_them() -> None:
    inner: list[float] = []
    outer: list[float] = []
    process, loop = VirtualProcess("parent"), running_virtual_loop()

    async def parent() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ticker, inner)

    async with anyio.create_task_group() as tasks:
        with in_process(process):
            tasks.start_soon(parent)
        tasks.start_soon(ticker, outer)
        await anyio.sleep(0.5)
        loop.kill(process)
        await anyio.sleep(3)
        assert (inner, outer) == ([], [1.0, 2.0, 3.0])
        loop.release(process)
        tasks.cancel_scope.cancel()


async def test_each_process_has_its_own_clock_rate() -> None:
    process, loop = VirtualProcess("fast", rate=1.25), running_virtual_loop()
    loop.enable_skew()
    ticks: list[float] = []
    async with anyio.create_task_group() as tasks:
        with in_process(process):
            tasks.start_soon(ticker, ticks)
        await anyio.sleep(4.1)
        tasks.cancel_scope.cancel()

    assert ticks == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0, -1.0], abs=1e-6)
    assert loop.simulated_seconds == pytest.approx(4.1)


async def test_timers_of_the_same_time_fire_in_creation_order() -> None:
    loop, fired = running_virtual_loop(), list[int]()
    for number in range(50):
        loop.call_at(5.0, fired.append, number)
    await anyio.sleep(6)

    assert fired == list(range(50))


async def test_a_cancelled_timer_does_not_fire() -> None:
    loop, fired = running_virtual_loop(), list[int]()
    handles = [loop.call_later(1 + number / 1e4, fired.append, number) for number in range(5000)]
    for handle in handles[1:]:
        handle.cancel()
    await anyio.sleep(10)

    assert fired == [0]


@pytest.mark.parametrize("name", ["getaddrinfo", "create_server", "add_signal_handler", "subprocess_exec"])
async def test_operations_that_complete_in_real_time_are_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="no sockets, DNS lookups, signals or subprocesses"):
        getattr(running_virtual_loop(), name)()
