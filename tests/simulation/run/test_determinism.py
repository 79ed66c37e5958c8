"""A seed determines a run: in every process, after any other seed, and under any hash seed."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Callable

import anyio
import pytest

from simulation.engine.ordered_scopes import ordered_scopes
from simulation.engine.random_streams import Streams
from simulation.engine.virtual_loop import run_virtual
from simulation.run.simulate import simulate

SEED, ANOTHER = 11, 12


def digest_in_another_process(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "simulation", "--seed", str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return result.stdout.splitlines()[-1].removeprefix("digest ")


@pytest.mark.timeout(240)
def test_a_seed_has_one_digest_in_all_processes_and_after_other_seeds() -> None:
    digests = {digest_in_another_process(SEED, hash_seed) for hash_seed in ("0", "12345")}

    other = simulate(ANOTHER).digest
    digests.add(simulate(SEED).digest)

    assert len(digests) == 1
    assert other not in digests


@pytest.mark.timeout(240)
def test_a_run_restores_the_state_of_its_process() -> None:
    gc_enabled, policy = gc.isenabled(), asyncio.get_event_loop_policy()
    simulate(SEED, without=("latency",))

    assert gc.isenabled() == gc_enabled
    assert asyncio.get_event_loop_policy() is policy


def test_an_extra_draw_in_one_stream_changes_no_other() -> None:
    first, second = Streams(1), Streams(1)
    first.get("a").random()

    assert first.get("b").random() == second.get("b").random()
    assert Streams(2).get("b").random() != Streams(1).get("b").random()


def test_identifiers_are_uuids_and_differ() -> None:
    new_identifier = Streams(1).identifiers("a")
    found = [new_identifier() for _ in range(100)]

    assert len(set(found)) == 100
    assert all([len(part) for part in text.split("-")] == [8, 4, 4, 4, 12] for text in found)


def cancelled_in_order(start: Callable[[anyio.abc.TaskGroup, list[int]], None]) -> list[int]:
    async def main() -> list[int]:
        order: list[int] = []
        async with anyio.create_task_group() as tasks:
            start(tasks, order)
            await anyio.sleep(1)
            tasks.cancel_scope.cancel()
        return order

    with ordered_scopes():
        return run_virtual(main)


def test_children_are_cancelled_in_start_order() -> None:
    async def child(number: int, order: list[int]) -> None:
        # anyio keeps child scopes by address.
        with anyio.CancelScope():
            try:
                await anyio.sleep_forever()
            finally:
                order.append(number)

    def start(tasks: anyio.abc.TaskGroup, order: list[int]) -> None:
        for number in range(30):
            tasks.start_soon(child, number, order)

    assert cancelled_in_order(start) == list(range(30))
