# ruff: noqa: N802, S311
"""The work queue's promises, Q1 to Q20: dedup, delays, retries, order, ageing, cancellation, shutdown."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Hashable
from typing import TypeVar

import anyio
import anyio.lowlevel
import pytest

from informers.ratelimit import ExponentialBackoff, RetryLimiter, TokenBucket
from informers.workqueue import AGED_TURN, DELAY_MAX_SECONDS, PRIORITY_LOW, QueueShutDown, WorkQueue
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend, block, run_virtual

pytestmark = pytest.mark.anyio
K = TypeVar("K", bound=Hashable)


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


@pytest.fixture
def queue() -> WorkQueue[str]:
    return make_queue()


def make_queue(*, ageing_seconds: float = 30.0, seed: int = 1) -> WorkQueue[str]:
    return WorkQueue("test", RetryLimiter.with_defaults(random.Random(seed)), ageing_seconds=ageing_seconds)


async def take_all(queue: WorkQueue[K]) -> list[K]:
    """Take and finish what is ready now, in its order."""
    taken = []
    while len(queue):
        taken.append(await queue.get())
        queue.done(taken[-1])
    return taken


async def take_timed(queue: WorkQueue[str], count: int) -> list[tuple[str, float]]:
    """Take and finish the next `count` keys, with the time of each."""
    taken = []
    for _ in range(count):
        key = await queue.get()
        taken.append((key, round(anyio.current_time(), 6)))
        queue.done(key)
    return taken


# Dedup -----------------------------------------------------------------------------------------------


async def test_Q1_a_waiting_key_added_twice_runs_once(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("a")
    assert await take_all(queue) == ["a"]
    assert queue.statistics().adds_total == 1


async def test_Q2_adds_during_a_run_cause_exactly_one_more_after_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert await queue.get() == "a"
    for _ in range(5):
        queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await take_all(queue) == ["a"]


async def test_Q3_no_two_workers_ever_hold_one_key() -> None:
    queue: WorkQueue[tuple[str, str]] = WorkQueue("test", RetryLimiter.with_defaults(random.Random(1)))
    held: set[tuple[str, str]] = set()
    runs = 0

    async def worker() -> None:
        nonlocal runs
        while True:
            key = await queue.get()
            assert key not in held
            held.add(key)
            await anyio.sleep(0.01)
            held.remove(key)
            runs += 1
            queue.done(key)

    async with anyio.create_task_group() as tasks:
        for _ in range(16):
            tasks.start_soon(worker)
        for number in range(1000):
            queue.add(("ns", "".join(["na", "me"])))  # Equal by value, a new string each time.
            await anyio.sleep(0.001 * (number % 3))
        await anyio.sleep(1)
        tasks.cancel_scope.cancel()
    assert 50 < runs <= 102
    assert not held


async def test_done_of_a_key_that_is_not_in_work_is_a_fault(queue: WorkQueue[str]) -> None:
    queue.add("a")
    with pytest.raises(RuntimeError, match="'a' is done, but was not in work"):
        queue.done("a")


# Order -----------------------------------------------------------------------------------------------


async def test_Q5_first_come_first_served_inside_a_priority(queue: WorkQueue[str]) -> None:
    for key in "cab":
        queue.add(key)
    assert await take_all(queue) == ["c", "a", "b"]


async def test_Q5_higher_priority_first(queue: WorkQueue[str]) -> None:
    queue.add("low", priority=PRIORITY_LOW)
    queue.add("normal")
    queue.add("high", priority=1)
    assert await take_all(queue) == ["high", "normal", "low"]


async def test_Q5_a_raised_key_goes_to_the_end_of_its_new_level(queue: WorkQueue[str]) -> None:
    queue.add("raised", priority=PRIORITY_LOW)
    queue.add("a")
    queue.add("b")
    queue.add("raised")
    queue.add("c")
    assert await take_all(queue) == ["a", "b", "raised", "c"]


async def test_Q5_a_lower_add_does_not_lower_a_waiting_key(queue: WorkQueue[str]) -> None:
    queue.add("a", priority=1)
    queue.add("b")
    queue.add("a", priority=PRIORITY_LOW)
    assert await take_all(queue) == ["a", "b"]
    assert queue.statistics().depth_by_priority == {0: 0, 1: 0}


async def test_Q5_delayed_keys_are_ordered_by_when_they_become_ready(queue: WorkQueue[str]) -> None:
    queue.add_after("late", 3)
    queue.add_after("early", 1)
    await anyio.sleep(2)
    queue.add("middle")
    await anyio.sleep(2)
    assert await take_all(queue) == ["early", "middle", "late"]


async def test_Q5_the_callers_order_ranks_keys_of_one_priority(queue: WorkQueue[str]) -> None:
    queue.add("young", order=(200.0, "young"))
    queue.add("twin-b", order=(100.0, "twin-b"))
    queue.add("twin-a", order=(100.0, "twin-a"))
    queue.add("high", priority=1, order=(300.0, "high"))
    queue.add("event")
    assert await take_all(queue) == ["high", "event", "twin-a", "twin-b", "young"]


async def test_Q5_a_waiting_key_keeps_the_better_of_its_orders(queue: WorkQueue[str]) -> None:
    queue.add("a", order=(2.0,))
    queue.add("b", order=(3.0,))
    queue.add("b", order=(1.0,))
    queue.add("b", order=(9.0,))
    assert await take_all(queue) == ["b", "a"]


# Delays ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delays", [(10, 1), (1, 10)])
async def test_Q6_the_earliest_delay_counts(queue: WorkQueue[str], delays: tuple[float, float]) -> None:
    for delay in delays:
        queue.add_after("a", delay)
    assert await take_timed(queue, 1) == [("a", 1.0)]
    await anyio.sleep(100)
    assert len(queue) == 0


async def test_Q6_a_delay_for_a_ready_key_does_not_postpone_it(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add_after("a", 10)
    assert await take_timed(queue, 1) == [("a", 0.0)]
    await anyio.sleep(100)
    assert len(queue) == 0


async def test_Q7_an_immediate_add_runs_now_and_drops_the_delay(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 10)
    await anyio.sleep(1)
    queue.add("a")
    assert await take_timed(queue, 1) == [("a", 1.0)]
    await anyio.sleep(100)
    assert len(queue) == 0
    assert queue.statistics().delayed == 0


async def test_Q7_an_add_during_the_run_wins_over_its_requeue(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add_after("a", 10)
    queue.done("a")
    assert await take_timed(queue, 1) == [("a", 0.0)]
    await anyio.sleep(100)
    assert len(queue) == 0


async def test_a_delay_that_ends_during_the_run_waits_for_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    queue.add_after("a", 1)
    await anyio.sleep(5)
    assert len(queue) == 0
    queue.done("a")
    assert await take_timed(queue, 1) == [("a", 5.0)]


async def test_a_dropped_delay_does_not_cut_a_later_one_short(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 1)
    queue.add("a")
    await take_all(queue)
    queue.add_after("a", 10)
    assert await take_timed(queue, 1) == [("a", 10.0)]


@pytest.mark.parametrize("delay", [0, -1, float("-inf")])
async def test_a_delay_of_nothing_is_an_immediate_add(queue: WorkQueue[str], delay: float) -> None:
    queue.add_after("a", delay)
    assert await take_all(queue) == ["a"]


@pytest.mark.parametrize("delay", [10 * 365 * 86_400.0, 1e300, float("inf")])
async def test_Q17_huge_delays_are_clamped(queue: WorkQueue[str], delay: float) -> None:
    queue.add_after("a", delay)
    assert await take_timed(queue, 1) == [("a", DELAY_MAX_SECONDS)]


async def test_Q17_a_delay_that_is_no_number_is_refused(queue: WorkQueue[str]) -> None:
    with pytest.raises(ValueError, match="'a' is not a number"):
        queue.add_after("a", float("nan"))


async def test_Q18_jumps_of_the_wall_clock_change_nothing(
    queue: WorkQueue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.add_after("a", 10)
    for jump in (3600, -3600):
        monkeypatch.setattr(time, "time", lambda jump=jump: 1e9 + jump)
        await anyio.sleep(1)
    assert await take_timed(queue, 1) == [("a", 10.0)]


async def test_delays_that_ended_during_a_block_are_served_in_their_order(queue: WorkQueue[str]) -> None:
    for key, delay in {"c": 3.0, "a": 1.0, "b": 2.0}.items():
        queue.add_after(key, delay)
    block(12)
    assert [key for key, _ in await take_timed(queue, 3)] == ["a", "b", "c"]


# Retries ---------------------------------------------------------------------------------------------


async def test_Q8_retries_back_off_and_forget_resets(queue: WorkQueue[str]) -> None:
    delays = []
    for _ in range(4):
        delays.append(queue.add_rate_limited("a"))
        await take_timed(queue, 1)
    assert delays == pytest.approx([0.005, 0.01, 0.02, 0.04], rel=0.2)
    assert anyio.current_time() == pytest.approx(sum(delays))
    assert queue.failures("a") == 4
    queue.forget("a")
    assert queue.add_rate_limited("a") <= 0.005


async def test_Q9_a_storm_of_retries_does_not_delay_a_fresh_event(queue: WorkQueue[str]) -> None:
    for number in range(1000):
        queue.add_rate_limited(f"failed-{number}")
    queue.add("event")
    assert await take_timed(queue, 1) == [("event", 0.0)]
    await anyio.sleep(1)
    assert 100 <= len(queue) <= 110
    await anyio.sleep(100)
    assert len(queue) == 1000


async def test_Q10_a_live_event_overtakes_ten_thousand_initial_adds(queue: WorkQueue[str]) -> None:
    for number in range(10_000):
        queue.add(f"initial-{number}", priority=PRIORITY_LOW)
    await anyio.sleep(1000)  # However long those have waited.
    queue.add("initial-7777")
    queue.add("event")
    turns = [await queue.get() for _ in range(4)]
    assert {"initial-7777", "event"} <= set(turns)


async def test_Q11_a_low_key_is_served_within_a_bounded_time_under_endless_load() -> None:
    queue = make_queue(ageing_seconds=30)
    queue.add("low", priority=PRIORITY_LOW)
    served: dict[str, float] = {}
    number = 0
    while "low" not in served:
        for _ in range(2):  # Twice what one worker at 10 a second can do.
            queue.add(f"live-{number}")
            number += 1
        key = await queue.get()
        await anyio.sleep(0.1)
        served[key] = anyio.current_time()
        queue.done(key)
        assert anyio.current_time() < 60, "starved"
    assert 30 <= served["low"] <= 30 + 0.1 * (AGED_TURN + 1)


async def test_Q11_aged_keys_get_no_more_than_their_share_of_turns() -> None:
    queue = make_queue(ageing_seconds=30)
    for number in range(100):
        queue.add(f"low-{number}", priority=PRIORITY_LOW)
    await anyio.sleep(60)
    for number in range(80):
        queue.add(f"live-{number}")
    turns = [(await queue.get())[:3] for _ in range(80)]
    assert Counter(turns) == {"liv": 70, "low": 10}


async def test_Q11_a_key_served_for_its_age_queues_up_again_like_any_other() -> None:
    queue = make_queue(ageing_seconds=1)
    queue.add("aged", priority=PRIORITY_LOW)
    await anyio.sleep(2)
    for number in range(AGED_TURN):
        queue.add(f"live-{number}")
    turns = [await queue.get() for _ in range(AGED_TURN)]
    assert turns[-1] == "aged"
    queue.done("aged")
    queue.add("low", priority=PRIORITY_LOW)
    queue.add("aged", priority=PRIORITY_LOW)
    assert await take_all(queue) == [f"live-{AGED_TURN - 1}", "low", "aged"]


async def test_Q12_a_retry_keeps_the_rank_of_its_run_unless_told_otherwise(queue: WorkQueue[str]) -> None:
    queue.add("low", priority=PRIORITY_LOW)
    await queue.get()
    queue.add_rate_limited("low")
    queue.done("low")
    queue.add("other", priority=PRIORITY_LOW, order=(1.0,))
    await queue.get()
    queue.add_after("other", 0.001)
    queue.done("other")
    await anyio.sleep(1)
    assert queue.statistics().depth_by_priority == {0: 0, PRIORITY_LOW: 2}
    queue.add("normal")
    assert await take_all(queue) == ["normal", "low", "other"]
    queue.add("low", priority=PRIORITY_LOW)
    await queue.get()
    queue.add_after("low", 1, priority=5)
    await anyio.sleep(2)
    queue.done("low")
    assert queue.statistics().depth_by_priority[5] == 1


async def test_Q19_a_key_that_is_always_added_again_keeps_no_other_out(queue: WorkQueue[str]) -> None:
    for key in ["hot", *"abcdefghij"]:
        queue.add(key)
    turns = []
    for _ in range(20):
        key = await queue.get()
        queue.add("hot")
        queue.done(key)
        turns.append(key)
    assert set(turns[:12]) == {"hot", *"abcdefghij"}


async def test_Q19_not_even_one_with_the_best_order() -> None:
    queue = make_queue(ageing_seconds=1)
    queue.add("other", order=(2.0, "other"))
    turns = []
    while "other" not in turns:
        queue.add("hot", order=(1.0, "hot"))
        turns.append(await queue.get())
        await anyio.sleep(0.1)
        queue.done(turns[-1])
        assert len(turns) < 30, "starved"


# Cancellation ----------------------------------------------------------------------------------------


async def test_Q15_a_getter_cancelled_while_waiting_takes_nothing(queue: WorkQueue[str]) -> None:
    with anyio.move_on_after(1):
        await queue.get()
    queue.add("a")
    assert await take_all(queue) == ["a"]
    assert queue.statistics().waiting_getters == 0


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
    first.cancel()  # Natively, as a framework around us may do: once, at whatever step it is.
    await asyncio.wait([first])
    if not add_first:
        queue.add("b")
    if taken:
        queue.done(taken[0])
    await asyncio.wait([second])
    taken += [await queue.get() for _ in range(len(queue))]
    assert sorted(taken) == ["a", "b"]


async def test_Q15_a_wakeup_given_to_a_cancelled_getter_is_passed_on(queue: WorkQueue[str]) -> None:
    tasks = [asyncio.create_task(queue.get()) for _ in range(3)]
    await anyio.lowlevel.checkpoint()
    queue.add("a")
    tasks[0].cancel()
    with anyio.fail_after(1):
        assert await tasks[1] == "a"
    tasks[2].cancel()
    await asyncio.wait(tasks)


# Shutdown --------------------------------------------------------------------------------------------


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
    assert queue.statistics().depth_by_priority == {0: 0}


def test_Q13_a_thousand_random_rounds_end_without_deadlock_or_loss() -> None:
    for seed in range(1000):
        run_virtual(RandomRound(seed).run)


class RandomRound:
    """Workers, workers that lose patience, and random adds; every key runs after its last add."""

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

    async def work_impatiently(self) -> None:
        while not self.queue.statistics().shut_down:
            with anyio.move_on_after(self.rng.random() * 0.01):
                await self.work()

    def add(self) -> None:
        key = self.rng.choice("abcde")
        self.pending.add(key)
        if self.rng.random() < 0.5:
            self.queue.add(key, priority=self.rng.choice((PRIORITY_LOW, 0)))
        else:
            self.queue.add_after(key, self.rng.random() * 0.02)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(self.work)
                tasks.start_soon(self.work_impatiently)
            for _ in range(20):
                self.add()
                await anyio.sleep(self.rng.choice((0, 0, 0.003)))
            if self.rng.random() < 0.5:
                await anyio.sleep(0.5)
                assert not self.pending, f"lost {self.pending}"
            assert await self.queue.drain(1)
        assert not self.held


async def test_Q14_drain_waits_for_keys_in_work(queue: WorkQueue[str]) -> None:
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


async def test_Q14_drain_gives_up_at_its_deadline(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    assert not await queue.drain(3)
    assert anyio.current_time() == pytest.approx(3)


# State and statistics --------------------------------------------------------------------------------


async def test_Q16_a_million_superseded_adds_leave_nothing_behind(queue: WorkQueue[str]) -> None:
    for number in range(250_000):
        queue.add_after("moved", 1_000_000 - number)
        queue.add_after("dropped", 500)
        queue.add("dropped")
        queue.add("raised", order=(-number,))
        if number % 50 == 0:
            queue.done(await queue.get())
    assert len(queue._delayed_heap) < 200
    assert len(queue._ready_heap) < 200
    assert len(queue) <= 2
    assert queue.statistics().delayed == 1
    for number in range(1000):
        queue.add_rate_limited(str(number))
        queue.forget(str(number))
    assert queue.statistics().failing == 0


async def test_Q16_the_loop_holds_one_timer_however_many_keys_are_delayed(queue: WorkQueue[str]) -> None:
    before = len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]
    for number in range(1000):
        queue.add_after(str(number), 1000 + number)
    assert len(asyncio.get_running_loop()._scheduled) == before + 1  # type: ignore[attr-defined]


async def test_Q20_statistics_follow_a_key_through_its_life() -> None:
    limiter = RetryLimiter(ExponentialBackoff[str](random.Random(1), jitter=0), TokenBucket())
    queue = WorkQueue("test", limiter)
    queue.add("a")
    queue.add("b", priority=PRIORITY_LOW)
    await anyio.sleep(2)
    await queue.get()
    await anyio.sleep(3)
    await queue.get()
    await anyio.sleep(1)
    statistics = queue.statistics()
    assert (statistics.running, statistics.depth_by_priority) == (2, {0: 0, PRIORITY_LOW: 0})
    assert (statistics.unfinished_seconds, statistics.longest_running_seconds) == (5.0, 4.0)
    assert statistics.queue_seconds.sum == 7.0
    queue.add_rate_limited("a")
    queue.done("a")
    queue.done("b")
    assert repr(queue) == "<WorkQueue 'test' ready=0 delayed=1 running=0 getters=0>"
    statistics = queue.statistics()
    assert (statistics.adds_total, statistics.retries_total, statistics.failing) == (2, 1, 1)
    assert (statistics.work_seconds.count, statistics.work_seconds.sum) == (2, 5.0)
    assert statistics.work_seconds.cumulative[-1] == 2
    assert (statistics.unfinished_seconds, statistics.longest_running_seconds) == (0.0, 0.0)
    queue.shut_down()
    assert repr(queue) == "<WorkQueue 'test' ready=0 delayed=0 running=0 getters=0 shut down>"


@pytest.mark.parametrize("delayed", [0, 10_000])
async def test_the_queue_is_fast_with_any_number_of_delayed_keys(queue: WorkQueue[str], delayed: int) -> None:
    for number in range(delayed):
        queue.add_after(f"delayed-{number}", 1000 + number)
    started = time.perf_counter()
    for number in range(20_000):
        queue.add(str(number % 500))
        queue.done(await queue.get())
    assert 20_000 / (time.perf_counter() - started) > 20_000  # 50,000 with room for a busy machine.
