"""Crashes at every request of a controller, and two controllers at once: contract §8.10.

Each scenario is one operation of the controller. The process crashes at its n-th request, before or after
the server applies it, and a new process without local state takes over. Then all invariants hold, and the
worker is in the expected state. Two controllers also do each operation at once, interleaved by random
latencies.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import anyio
import pytest

from simulation.apiserver.client import ApiClient
from simulation.apiserver.interception import READING_VERBS, Apply, Request
from simulation.apiserver.kinds import Kind
from simulation.chaos.scripted import Crash
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import audited
from tests.contract.scenarios import OPERATIONS, QUICK_SECONDS, Operation
from tests.virtualtime import run_virtual

SEEDS = range(20)
AT_MOST_REQUESTS = 60
"""A bound on the loop over the requests, which no operation reaches."""
SWEPT_SECONDS = 130.0
"""A sweep at the start of a controller releases its orphans two minutes later."""

SWEPT_LATER_SECONDS = 750.0
"""Later orphans are found within ten minutes, and released two minutes later."""


# Crashes.


class CrashAt:
    """Counts the requests of an operation and crashes the sender at one of them."""

    def __init__(self, client: ApiClient, number: int, *, applied: bool) -> None:
        self._crash = Crash(client, applied)
        self._number = number
        self._seen = 0
        self.hit = ""

    async def __call__(self, request: Request, apply: Apply) -> bytes:
        self._seen += audited(request)
        if audited(request) and self._seen == self._number:
            self.hit = str(request)
            return await self._crash(request, apply)
        return apply()


async def crash_and_restart(operation: Operation, number: int, applied: bool) -> str:
    """Crash an operation at its n-th request, restart, and check; returns the request, if there was one."""
    async with SimulatedCluster() as cluster, anyio.create_task_group() as users:
        limit = operation.settings.max_seats_per_claim
        invariants = InvariantChecker(cluster, limit=limit)
        async with simulated_controller(cluster, operation.settings, identity="victim") as victim:
            await operation.arrange(cluster)
            crash_at = CrashAt(victim.client, number, applied=applied)
            victim.client.interceptor = crash_at
            users.start_soon(operation.act, cluster)
            with anyio.move_on_after(max(operation.lasts_seconds, QUICK_SECONDS)):
                await victim.client.wait_crashed()
        async with simulated_controller(cluster, operation.settings, identity="successor"):
            await anyio.sleep(max(operation.lasts_seconds, SWEPT_SECONDS))
            await cluster.settle()
            where = f"{operation} crashed at {crash_at.hit} (applied: {applied})"
            assert invariants.violations == [], where
            assert violations_at_rest(cluster, limit=limit) == [], where
            try:
                operation.check(cluster)
            except AssertionError as error:
                raise AssertionError(where) from error
    return crash_at.hit


@pytest.mark.parametrize("applied", [False, True], ids=["before", "applied"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_crash_at_any_request_is_recovered(operation: Operation, applied: bool) -> None:
    hits = []
    for number in range(1, AT_MOST_REQUESTS):
        hit = run_virtual(crash_and_restart, operation, number, applied)
        if not hit:
            break
        hits.append(hit)
    else:
        pytest.fail(f"{operation} takes {AT_MOST_REQUESTS} requests or more")
    writes = [hit for hit in hits if not any(f" {verb} " in hit for verb in READING_VERBS)]
    assert len(writes) >= 3, f"the operation was not done: {hits}"


# Two controllers.


def random_latency(rng: Random) -> Callable[[Request], float]:
    """Return latencies that are mostly short, but sometimes span several requests of the other controller."""

    def latency_seconds(_request: Request) -> float:
        return rng.expovariate(100.0) + (rng.random() * 0.4 if rng.random() < 0.15 else 0.0)

    return latency_seconds


async def run_with_two_controllers(operation: Operation, seed: int) -> None:
    async with SimulatedCluster(seed=seed) as cluster:
        limit = operation.settings.max_seats_per_claim
        invariants = InvariantChecker(cluster, limit=limit)
        lag = cluster.rng("lag")

        def lag_seconds(_client: str, _kind: Kind) -> float:
            return lag.expovariate(30.0)

        async with simulated_controller(
            cluster, operation.settings, identity="one", latency_seconds=random_latency(cluster.rng("one"))
        ):
            await operation.arrange(cluster)
            cluster.watches.lag_seconds = lag_seconds
            async with simulated_controller(
                cluster,
                operation.settings,
                identity="two",
                latency_seconds=random_latency(cluster.rng("two")),
            ):
                await operation.act(cluster)
                await anyio.sleep(
                    max(operation.lasts_for_two_seconds, operation.lasts_seconds, SWEPT_LATER_SECONDS)
                )
                await cluster.settle()
                assert invariants.violations == [], f"{operation}, seed {seed}"
                assert violations_at_rest(cluster, limit=limit) == [], f"{operation}, seed {seed}"
                operation.check(cluster)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_two_controllers_reach_the_result_of_one(operation: Operation) -> None:
    for seed in SEEDS:
        run_virtual(run_with_two_controllers, operation, seed)
