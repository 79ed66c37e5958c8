"""Crashes at every request of a controller, and two controllers at once: section 8, invariant 10.

Each scenario is one deed of the controller. The process dies at its n-th request, before the server carries
it out or after, and a fresh one with an empty memory takes over; then all invariants hold and the worker is
where it should be. The same deeds are done by two controllers at once, interleaved by drawn latencies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

import anyio
import pytest

from controller.settings import Settings
from simulation.apiserver.client import ApiClient
from simulation.apiserver.interception import READING_VERBS, Apply, Request
from simulation.apiserver.kinds import Kind
from simulation.cluster import SimulatedCluster
from simulation.faults import Crash
from simulation.invariants import Watchdog, at_rest
from simulation.openrl import workload
from simulation.process import SETTINGS, simulated_controller
from tests.contract.world import (
    LIMIT_OF_TWO,
    audited,
    claim_of,
    delete_pod,
    row,
    settings_with,
    submit,
)
from tests.virtualtime import run_virtual

SEEDS = range(20)
AT_MOST_REQUESTS = 60
"""No deed takes more: a bound on the loop over the requests, not on the controller."""
QUICK_SECONDS = 10.0
"""A deed that waits for no timer of the controller is done by then."""

SWEPT_SECONDS = 130.0
"""What a sweep finds at the start of a controller is released two minutes later."""

SWEPT_LATER_SECONDS = 750.0
"""What comes after that start is found within ten minutes, and released two minutes later."""


@dataclass(frozen=True)
class Deed:
    """One thing that a controller does, from what is there before to what must be there afterwards."""

    name: str
    arrange: Callable[[SimulatedCluster], Awaitable[None]]
    act: Callable[[SimulatedCluster], Awaitable[None]]
    check: Callable[[SimulatedCluster], None]
    settings: Settings = SETTINGS
    lasts_seconds: float = 0.0
    """How long after `act` the deed may be under way: past the controller's own timers."""
    lasts_for_two_seconds: float = 0.0
    """The same for two controllers, where that is longer: what one remembers the other has to learn."""

    def __str__(self) -> str:
        return self.name


# The deeds.


async def one_node(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)


async def submit_a_worker(cluster: SimulatedCluster) -> None:
    cluster.openrl.submit(workload("worker"))


def runs(name: str) -> Callable[[SimulatedCluster], None]:
    def check(cluster: SimulatedCluster) -> None:
        assert row(cluster, name) == ("Running", "True", "Placed", "")

    return check


async def a_shared_claim(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await submit(cluster, "founder")


def runs_beside_the_founder(cluster: SimulatedCluster) -> None:
    runs("worker")(cluster)
    assert claim_of(cluster, "worker") == claim_of(cluster, "founder")


async def a_full_claim_and_a_waiter(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await submit(cluster, "founder", "second", "worker")
    assert row(cluster, "worker")[:3] == ("Pending", "False", "Unschedulable")


async def free_a_seat(cluster: SimulatedCluster) -> None:
    cluster.openrl.delete("second")


async def two_seated(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await submit(cluster, "founder", "worker")


async def one_seated(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await submit(cluster, "worker")


async def delete_the_worker(cluster: SimulatedCluster) -> None:
    cluster.openrl.delete("worker")


def only_the_founder_is_left(cluster: SimulatedCluster) -> None:
    assert list(cluster.openrl.statuses()) == ["founder"]
    assert cluster.openrl.seats() == {claim_of(cluster, "founder"): ["founder"]}
    assert len(cluster.openrl.pods()) == 1


def nothing_is_left(cluster: SimulatedCluster) -> None:
    assert cluster.openrl.is_empty()


async def a_wedged_pod(cluster: SimulatedCluster) -> None:
    """A seat on a claim whose node takes no new Pod, and another node that does."""
    cluster.fleet.add_nodes(1)
    await submit(cluster, "founder", "worker")
    cluster.fleet.add_node("spare")
    cluster.fleet.cordon("gpu-node-0")
    await cluster.settle()
    delete_pod(cluster, "worker")
    await cluster.settle()
    assert row(cluster, "worker")[:3] == ("Pending", "False", "Unschedulable")


async def wait_for_patience_to_end(_cluster: SimulatedCluster) -> None:
    await anyio.sleep(90)


def runs_on_the_spare(cluster: SimulatedCluster) -> None:
    runs("worker")(cluster)
    assert cluster.openrl.status("worker")["nodeName"] == "spare"
    runs("founder")(cluster)


async def a_worker_that_nothing_takes(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.openrl.submit(workload("holder", shared=False))
    await cluster.settle()
    cluster.openrl.submit(workload("worker"))
    await cluster.settle()


def has_timed_out(cluster: SimulatedCluster) -> None:
    phase, _, reason, text = row(cluster, "worker")
    assert (phase, reason) == ("Failed", "Unschedulable")
    assert text.startswith("PlacementTimeout: waited 1m; last: ")
    assert cluster.openrl.pod("worker") is None
    assert list(cluster.openrl.seats().values()) == [["holder"]]


PATIENT = 150.0

PLACEMENT = Deed("a dedicated placement", one_node, submit_a_worker, runs("worker"))
JOIN = Deed("a join", a_shared_claim, submit_a_worker, runs_beside_the_founder, LIMIT_OF_TWO)
MOVE = Deed("a move to a seat", a_full_claim_and_a_waiter, free_a_seat, runs_beside_the_founder, LIMIT_OF_TWO)
DELETION = Deed("a deletion", two_seated, delete_the_worker, only_the_founder_is_left)
LAST_DELETION = Deed("a deletion of the last worker", one_seated, delete_the_worker, nothing_is_left)
ABANDONMENT = Deed(
    "an abandonment",
    a_wedged_pod,
    wait_for_patience_to_end,
    runs_on_the_spare,
    settings_with(placement_timeout_seconds=0.0),
    lasts_seconds=PATIENT,
    lasts_for_two_seconds=1800.0,
)
TIMEOUT = Deed(
    "a timeout",
    a_worker_that_nothing_takes,
    wait_for_patience_to_end,
    has_timed_out,
    settings_with(placement_timeout_seconds=60.0),
    lasts_seconds=PATIENT,
)
DEEDS = (PLACEMENT, JOIN, MOVE, DELETION, LAST_DELETION, ABANDONMENT, TIMEOUT)


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
    async with SimulatedCluster() as cluster:
        limit = deed.settings.max_seats_per_claim
        watchdog = Watchdog(cluster, limit=limit)
        async with simulated_controller(cluster, deed.settings, identity="victim") as victim:
            await deed.arrange(cluster)
            crash_at = CrashAt(victim.client, number, applied=applied)
            victim.client.interceptor = crash_at
            await deed.act(cluster)
            with anyio.move_on_after(max(deed.lasts_seconds, QUICK_SECONDS)):
                await victim.client.wait_crashed()
        async with simulated_controller(cluster, deed.settings, identity="successor"):
            await anyio.sleep(max(deed.lasts_seconds, SWEPT_SECONDS))
            await cluster.settle()
            where = f"{deed} crashed at {crash_at.hit} (applied: {applied})"
            assert watchdog.violations == [], where
            assert at_rest(cluster, limit=limit) == [], where
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
        watchdog = Watchdog(cluster, limit=limit)
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
                assert watchdog.violations == [], f"{deed}, seed {seed}"
                assert at_rest(cluster, limit=limit) == [], f"{deed}, seed {seed}"
                deed.check(cluster)


@pytest.mark.parametrize("deed", DEEDS, ids=str)
def test_two_controllers_do_it_once(deed: Deed) -> None:
    for seed in SEEDS:
        run_virtual(done_by_two, deed, seed)
