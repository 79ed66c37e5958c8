"""Retries, order and ageing: no key starves (Q8 to Q12, Q19)."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from informers.queue.workqueue import AGED_TURN, WorkQueue
from tests.informers.queue.queues import LATE, make_queue, take_all, take_timed
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


@pytest.fixture
def queue() -> WorkQueue[str]:
    return make_queue()


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


async def test_Q9_a_storm_of_retries_does_not_delay_a_new_event(queue: WorkQueue[str]) -> None:
    for number in range(1000):
        queue.add_rate_limited(f"failed-{number}")
    queue.add("event")
    assert await take_timed(queue, 1) == [("event", 0.0)]
    await anyio.sleep(1)
    assert 100 <= len(queue) <= 110
    await anyio.sleep(100)
    assert len(queue) == 1000


async def test_Q10_an_event_overtakes_ten_thousand_keys_of_a_later_order(queue: WorkQueue[str]) -> None:
    for number in range(10_000):
        queue.add(f"initial-{number}", order=LATE)
    await anyio.sleep(1000)  # Their age does not matter.
    queue.add("initial-7777")
    queue.add("event")
    turns = [await queue.get() for _ in range(4)]
    assert {"initial-7777", "event"} <= set(turns)


async def test_Q11_a_key_of_a_late_order_runs_within_a_bounded_time_under_endless_load() -> None:
    queue = make_queue(ageing_seconds=30)
    queue.add("late", order=LATE)
    served: dict[str, float] = {}
    number = 0
    while "late" not in served:
        for _ in range(2):  # Twice the capacity of one worker at 10 a second.
            queue.add(f"live-{number}")
            number += 1
        key = await queue.get()
        await anyio.sleep(0.1)
        served[key] = anyio.current_time()
        queue.done(key)
        assert anyio.current_time() < 60, "starved"
    assert 30 <= served["late"] <= 30 + 0.1 * (AGED_TURN + 1)


async def test_Q11_aged_keys_get_at_most_their_share_of_turns() -> None:
    queue = make_queue(ageing_seconds=30)
    for number in range(100):
        queue.add(f"late-{number}", order=LATE)
    await anyio.sleep(60)
    for number in range(80):
        queue.add(f"live-{number}")
    turns = [(await queue.get())[:3] for _ in range(80)]
    assert Counter(turns) == {"liv": 70, "lat": 10}


async def test_Q11_a_key_that_ran_because_of_its_age_waits_again_like_any_other() -> None:
    queue = make_queue(ageing_seconds=1)
    queue.add("aged", order=LATE)
    await anyio.sleep(2)
    for number in range(AGED_TURN):
        queue.add(f"live-{number}")
    turns = [await queue.get() for _ in range(AGED_TURN)]
    assert turns[-1] == "aged"
    queue.done("aged")
    queue.add("late", order=LATE)
    queue.add("aged", order=LATE)
    assert await take_all(queue) == [f"live-{AGED_TURN - 1}", "late", "aged"]


async def test_Q12_a_retry_keeps_the_order_of_its_run_unless_another_is_given(queue: WorkQueue[str]) -> None:
    queue.add("late", order=LATE)
    await queue.get()
    queue.add_rate_limited("late")
    queue.done("late")
    queue.add("later", order=(2.0,))
    await queue.get()
    queue.add_after("later", 0.001)
    queue.done("later")
    await anyio.sleep(1)
    assert queue.statistics().depth == 2
    queue.add("normal")
    assert await take_all(queue) == ["normal", "late", "later"]
    queue.add("late", order=LATE)
    await queue.get()
    queue.add_after("late", 1, order=(3.0,))
    await anyio.sleep(2)
    queue.done("late")
    queue.add("later", order=(2.0,))
    assert await take_all(queue) == ["later", "late"]


async def test_Q19_a_key_that_is_always_added_again_does_not_starve_others(queue: WorkQueue[str]) -> None:
    for key in ["hot", *"abcdefghij"]:
        queue.add(key)
    turns = []
    for _ in range(20):
        key = await queue.get()
        queue.add("hot")
        queue.done(key)
        turns.append(key)
    assert set(turns[:12]) == {"hot", *"abcdefghij"}


async def test_Q19_a_hot_key_with_the_first_order_does_not_starve_others() -> None:
    queue = make_queue(ageing_seconds=1)
    queue.add("other", order=(2.0, "other"))
    turns = []
    while "other" not in turns:
        queue.add("hot", order=(1.0, "hot"))
        turns.append(await queue.get())
        await anyio.sleep(0.1)
        queue.done(turns[-1])
        assert len(turns) < 30, "starved"
