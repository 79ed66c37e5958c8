"""Crashes at every request of a controller, and two controllers at once: contract §8.10.

Each scenario is one deed of the controller. The process dies at its n-th request, before the server carries
it out or after, and a fresh one with an empty memory takes over; then all invariants hold and the worker is
where it should be. The same deeds are done by two controllers at once, interleaved by drawn latencies.
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
from simulation.cluster.simulated import SimulatedCluster
from tests.contract.harness import audited
from tests.contract.scenarios import DEEDS, QUICK_SECONDS, Deed
from tests.virtualtime import run_virtual

SEEDS = range(20)
AT_MOST_REQUESTS = 60
"""No deed takes more: a bound on the loop over the requests, not on the controller."""
SWEPT_SECONDS = 130.0
"""What a sweep finds at the start of a controller is released two minutes later."""

SWEPT_LATER_SECONDS = 750.0
"""What comes after that start is found within ten minutes, and released two minutes later."""


# Crashes.


class CrashAt:
    """Counts the requests of a deed and kills their sender at one of them."""

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


async def crash_and_restart(deed: Deed, number: int, applied: bool) -> str:
    """Do a deed, die at its request of that number, restart, settle, check. Returns the request, if any."""
    async with SimulatedCluster() as cluster, anyio.create_task_group() as users:
        limit = deed.settings.max_seats_per_claim
        invariants = InvariantChecker(cluster, limit=limit)
        async with simulated_controller(cluster, deed.settings, identity="victim") as victim:
            await deed.arrange(cluster)
            crash_at = CrashAt(victim.client, number, applied=applied)
            victim.client.interceptor = crash_at
            users.start_soon(deed.act, cluster)
            with anyio.move_on_after(max(deed.lasts_seconds, QUICK_SECONDS)):
                await victim.client.wait_crashed()
        async with simulated_controller(cluster, deed.settings, identity="successor"):
            await anyio.sleep(max(deed.lasts_seconds, SWEPT_SECONDS))
            await cluster.settle()
            where = f"{deed} crashed at {crash_at.hit} (applied: {applied})"
            assert invariants.violations == [], where
            assert violations_at_rest(cluster, limit=limit) == [], where
            try:
                deed.check(cluster)
            except AssertionError as error:
                raise AssertionError(where) from error
    return crash_at.hit


@pytest.mark.parametrize("applied", [False, True], ids=["before", "applied"])
@pytest.mark.parametrize("deed", DEEDS, ids=str)
def test_a_crash_at_any_request_is_recovered_from(deed: Deed, applied: bool) -> None:
    hits = []
    for number in range(1, AT_MOST_REQUESTS):
        hit = run_virtual(crash_and_restart, deed, number, applied)
        if not hit:
            break
        hits.append(hit)
    else:
        pytest.fail(f"{deed} takes {AT_MOST_REQUESTS} requests or more")
    writes = [hit for hit in hits if not any(f" {verb} " in hit for verb in READING_VERBS)]
    assert len(writes) >= 3, f"the deed was not done: {hits}"


# Two at once.


def drawn_latency(rng: Random) -> Callable[[Request], float]:
    """Mostly quick, sometimes slow enough for the other one to do several things in between."""

    def latency_seconds(_request: Request) -> float:
        return rng.expovariate(100.0) + (rng.random() * 0.4 if rng.random() < 0.15 else 0.0)

    return latency_seconds


async def done_by_two(deed: Deed, seed: int) -> None:
    async with SimulatedCluster(seed=seed) as cluster:
        limit = deed.settings.max_seats_per_claim
        invariants = InvariantChecker(cluster, limit=limit)
        lag = cluster.rng("lag")

        def lag_seconds(_client: str, _kind: Kind) -> float:
            return lag.expovariate(30.0)

        async with simulated_controller(
            cluster, deed.settings, identity="one", latency_seconds=drawn_latency(cluster.rng("one"))
        ):
            await deed.arrange(cluster)
            cluster.watches.lag_seconds = lag_seconds
            async with simulated_controller(
                cluster, deed.settings, identity="two", latency_seconds=drawn_latency(cluster.rng("two"))
            ):
                await deed.act(cluster)
                await anyio.sleep(max(deed.lasts_for_two_seconds, deed.lasts_seconds, SWEPT_LATER_SECONDS))
                await cluster.settle()
                assert invariants.violations == [], f"{deed}, seed {seed}"
                assert violations_at_rest(cluster, limit=limit) == [], f"{deed}, seed {seed}"
                deed.check(cluster)


@pytest.mark.parametrize("deed", DEEDS, ids=str)
def test_two_controllers_do_it_once(deed: Deed) -> None:
    for seed in SEEDS:
        run_virtual(done_by_two, deed, seed)
