"""Cancelled getters, shutdown and drain: no key is lost, no getter hangs (Q13 to Q15)."""

from __future__ import annotations

import asyncio
import random

import anyio
import anyio.lowlevel
import pytest

from informers.queue.workqueue import QueueShutDown, WorkQueue
from tests.informers.queue.queues import LATE, make_queue, take_all
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend, run_virtual

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


@pytest.fixture
def queue() -> WorkQueue[str]:
    return make_queue()


async def test_Q15_a_getter_cancelled_while_waiting_takes_nothing(queue: WorkQueue[str]) -> None:
    with anyio.move_on_after(1):
        await queue.get()
    queue.add("a")
    assert await take_all(queue) == ["a"]
    assert "getters=0" in repr(queue)


@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("add_first", [True, False])
async def test_Q15_a_cancelled_get_loses_nothing_at_any_step(
    queue: WorkQueue[str], steps: int, add_first: bool
) -> None:
    taken: list[str] = []

    async def getter() -> None:
        taken.append(await queue.get())

    first, second = asyncio.create_task(getter()), asyncio.create_task(getter())
    await anyio.lowlevel.checkpoint()
    queue.add("a")
    for _ in range(steps):
        await anyio.lowlevel.checkpoint()
    if add_first:
        queue.add("b")
    first.cancel()  # A native cancellation, which is delivered once, at any step.
    await asyncio.wait([first])
    if not add_first:
        queue.add("b")
    if taken:
        queue.done(taken[0])
    await asyncio.wait([second])
    taken += [await queue.get() for _ in range(len(queue))]
    assert sorted(taken) == ["a", "b"]


async def test_Q15_the_notification_of_a_cancelled_getter_is_passed_on(queue: WorkQueue[str]) -> None:
    tasks = [asyncio.create_task(queue.get()) for _ in range(3)]
    await anyio.lowlevel.checkpoint()
    queue.add("a")
    tasks[0].cancel()
    with anyio.fail_after(1):
        assert await tasks[1] == "a"
    tasks[2].cancel()
    await asyncio.wait(tasks)


async def test_Q13_shutdown_ends_getters_and_ignores_adds(queue: WorkQueue[str]) -> None:
    async def getter() -> None:
        with pytest.raises(QueueShutDown):
            await queue.get()

    queue.add_after("delayed", 5)
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(getter)
        await anyio.sleep(1)
        queue.shut_down()
        queue.shut_down()
    queue.add("a")
    queue.add_after("a", 1)
    queue.add_rate_limited("a")
    await anyio.sleep(10)
    with pytest.raises(QueueShutDown):
        await queue.get()
    assert queue.statistics().depth == 0


def test_Q13_a_thousand_random_rounds_end_without_deadlock_or_loss() -> None:
    for seed in range(1000):
        run_virtual(RandomRound(seed).run)


class RandomRound:
    """Workers, some of which are cancelled, and random adds. Every key runs after its last add."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.queue = make_queue(ageing_seconds=0.01, seed=seed)
        self.pending: set[str] = set()
        self.held: set[str] = set()

    async def work(self) -> None:
        while True:
            try:
                await self.work_once()
            except QueueShutDown:
                return

    async def work_once(self) -> None:
        key = await self.queue.get()
        assert key not in self.held
        self.held.add(key)
        self.pending.discard(key)
        with anyio.CancelScope(shield=True):
            await anyio.sleep(self.rng.choice((0, 0, 0.004)))
        if self.rng.random() < 0.2:
            self.queue.add_rate_limited(key)
            self.pending.add(key)
        self.held.remove(key)
        self.queue.done(key)

    async def work_with_cancellation(self) -> None:
        while not self.queue._shut_down:
            with anyio.move_on_after(self.rng.random() * 0.01):
                await self.work()

    def add(self) -> None:
        key = self.rng.choice("abcde")
        self.pending.add(key)
        if self.rng.random() < 0.5:
            self.queue.add(key, order=self.rng.choice((LATE, ())))
        else:
            self.queue.add_after(key, self.rng.random() * 0.02)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(self.work)
                tasks.start_soon(self.work_with_cancellation)
            for _ in range(20):
                self.add()
                await anyio.sleep(self.rng.choice((0, 0, 0.003)))
            if self.rng.random() < 0.5:
                await anyio.sleep(0.5)
                assert not self.pending, f"lost {self.pending}"
            assert await self.queue.drain(1)
        assert not self.held


async def test_Q14_drain_waits_for_running_keys(queue: WorkQueue[str]) -> None:
    async def work() -> None:
        key = await queue.get()
        queue.add(key)
        await anyio.sleep(5)
        queue.add(key)
        queue.done(key)

    queue.add("a")
    queue.add("b")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await anyio.lowlevel.checkpoint()
        assert await queue.drain(10)
    assert anyio.current_time() == 5
    assert len(queue) == 0
    assert await queue.drain(10)


async def test_Q14_drain_returns_at_its_deadline(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    assert not await queue.drain(3)
    assert anyio.current_time() == pytest.approx(3)
