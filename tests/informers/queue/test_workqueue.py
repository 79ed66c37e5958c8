"""Dedup, order, delays and state of keys in the queue (Q1 to Q7, Q16 to Q18, Q20)."""

from __future__ import annotations

import asyncio
import random
import time

import anyio
import pytest

from informers.backoff import ExponentialBackoff, RetryLimiter, TokenBucket
from informers.queue.workqueue import DELAY_MAX_SECONDS, WorkQueue
from tests.informers.queue.queues import LATE, make_queue, take_all, take_timed
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend, block

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


@pytest.fixture
def queue() -> WorkQueue[str]:
    return make_queue()


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
            queue.add(("ns", "".join(["na", "me"])))  # An equal value, a new string each time.
            await anyio.sleep(0.001 * (number % 3))
        await anyio.sleep(1)
        tasks.cancel_scope.cancel()
    assert 50 < runs <= 102
    assert not held


async def test_done_for_a_key_that_is_not_running_raises(queue: WorkQueue[str]) -> None:
    queue.add("a")
    with pytest.raises(RuntimeError, match="'a' is done, but was not running"):
        queue.done("a")


# Order -----------------------------------------------------------------------------------------------


async def test_Q5_keys_without_an_order_run_first_in_first_out(queue: WorkQueue[str]) -> None:
    for key in "cab":
        queue.add(key)
    assert await take_all(queue) == ["c", "a", "b"]


async def test_Q5_keys_run_in_the_order_of_the_caller_and_those_without_one_first(
    queue: WorkQueue[str],
) -> None:
    queue.add("last", order=(2.0,))
    queue.add("middle", order=(1.0,))
    queue.add("first")
    assert await take_all(queue) == ["first", "middle", "last"]


async def test_Q5_a_key_that_moves_ahead_runs_after_keys_of_its_new_order(queue: WorkQueue[str]) -> None:
    queue.add("moved", order=LATE)
    queue.add("a")
    queue.add("b")
    queue.add("moved")
    queue.add("c")
    assert await take_all(queue) == ["a", "b", "moved", "c"]


async def test_Q5_an_add_with_a_later_order_does_not_move_a_waiting_key_back(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("b", order=LATE)
    queue.add("a", order=(2.0,))
    assert await take_all(queue) == ["a", "b"]
    assert queue.statistics().depth == 0


async def test_Q5_delayed_keys_run_in_the_order_in_which_they_become_ready(queue: WorkQueue[str]) -> None:
    queue.add_after("late", 3)
    queue.add_after("early", 1)
    await anyio.sleep(2)
    queue.add("middle")
    await anyio.sleep(2)
    assert await take_all(queue) == ["early", "middle", "late"]


async def test_Q5_orders_compare_element_by_element(queue: WorkQueue[str]) -> None:
    queue.add("young", order=(200.0, "young"))
    queue.add("twin-b", order=(100.0, "twin-b"))
    queue.add("twin-a", order=(100.0, "twin-a"))
    queue.add("event")
    assert await take_all(queue) == ["event", "twin-a", "twin-b", "young"]


async def test_Q5_a_waiting_key_keeps_the_smallest_of_its_orders(queue: WorkQueue[str]) -> None:
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


async def test_a_dropped_delay_does_not_shorten_a_later_one(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 1)
    queue.add("a")
    await take_all(queue)
    queue.add_after("a", 10)
    assert await take_timed(queue, 1) == [("a", 10.0)]


@pytest.mark.parametrize("delay", [0, -1, float("-inf")])
async def test_a_delay_of_zero_or_less_is_an_immediate_add(queue: WorkQueue[str], delay: float) -> None:
    queue.add_after("a", delay)
    assert await take_all(queue) == ["a"]


@pytest.mark.parametrize("delay", [10 * 365 * 86_400.0, 1e300, float("inf")])
async def test_Q17_huge_delays_are_clamped(queue: WorkQueue[str], delay: float) -> None:
    queue.add_after("a", delay)
    assert await take_timed(queue, 1) == [("a", DELAY_MAX_SECONDS)]


async def test_Q17_a_delay_that_is_not_a_number_is_rejected(queue: WorkQueue[str]) -> None:
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


async def test_delays_that_ended_while_the_loop_was_blocked_run_in_their_order(queue: WorkQueue[str]) -> None:
    for key, delay in {"c": 3.0, "a": 1.0, "b": 2.0}.items():
        queue.add_after(key, delay)
    block(12)
    assert [key for key, _ in await take_timed(queue, 3)] == ["a", "b", "c"]


async def take_three_delayed_keys() -> None:
    queue = make_queue()
    for key, delay in {"c": 0.03, "a": 0.0101, "b": 0.0202}.items():
        queue.add_after(key, delay)
    with anyio.fail_after(10):
        assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


@pytest.mark.parametrize("use_uvloop", [False, True])
def test_delays_work_on_real_event_loops(use_uvloop: bool) -> None:
    anyio.run(take_three_delayed_keys, backend_options={"use_uvloop": use_uvloop})


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
    assert not queue._limiter.backoff._failures


async def test_Q16_the_queue_uses_one_timer_for_any_number_of_delayed_keys(queue: WorkQueue[str]) -> None:
    before = len(asyncio.get_running_loop()._timers)  # type: ignore[attr-defined]
    for number in range(1000):
        queue.add_after(str(number), 1000 + number)
    assert len(asyncio.get_running_loop()._timers) == before + 1  # type: ignore[attr-defined]


async def test_Q20_statistics_follow_a_key_from_add_to_done() -> None:
    limiter = RetryLimiter(ExponentialBackoff[str](random.Random(1), jitter=0), TokenBucket())
    queue = WorkQueue("test", limiter)
    queue.add("a")
    queue.add("b", order=LATE)
    await anyio.sleep(2)
    await queue.get()
    await anyio.sleep(3)
    await queue.get()
    await anyio.sleep(1)
    statistics = queue.statistics()
    assert (len(queue._running), statistics.depth) == (2, 0)
    assert (statistics.unfinished_seconds, statistics.longest_running_seconds) == (5.0, 4.0)
    assert statistics.queue_seconds.sum == 7.0
    queue.add_rate_limited("a")
    queue.done("a")
    queue.done("b")
    assert repr(queue) == "<WorkQueue 'test' ready=0 delayed=1 running=0 getters=0>"
    statistics = queue.statistics()
    assert (statistics.adds_total, statistics.retries_total) == (2, 1)
    assert queue.failures("a") == 1
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
    assert 20_000 / (time.perf_counter() - started) > 20_000  # 50,000 when the machine is idle.
