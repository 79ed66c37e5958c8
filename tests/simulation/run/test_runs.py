"""Whole runs as ordinary tests: no fault, each fault alone, all at once, and a batch of seeds, each twice."""

from __future__ import annotations

import subprocess
import sys
from types import MappingProxyType

import pytest

from simulation.chaos.scenario import Scenario, draw_scenario
from simulation.checks.coverage import BATCH_MIN
from simulation.engine.fault_plan import FAULTS, FaultPlan
from simulation.engine.random_streams import Streams
from simulation.run.simulate import RunOutcome, simulate

SEEDS, START = BATCH_MIN, 1000
"""The batch of every test run; CI and nights run others on top."""

SHOWS: dict[str, str] = {
    "lost-answers": "answer lost",
    "late-writes": "late write applied",
    "rogue-writes": "conflict",
    "expired-watches": "history expired",
    "crashes": "crash",
    "pauses": "paused past the lease",
    "partitions": "write during partition",
    "rival": "rival",
    "rolling-updates": "graceful stop",
    "lost-namespace": "namespace deleted",
    "lost-class": "no device class",
}
"""What a run with nothing but this fault must show at least once."""

REGRESSIONS: dict[int, str] = {
    13: "waiters were taken for idle capacity whose devices were too small",
    62: "a claim that had been deleted with its ledger ended under a new one",
    338: "the scheduler put more Pods on a node than it holds while bindings were slow",
    2029: "a clock that goes fast made the end of a watch's wait a busy loop",
    5163: "a Pod that was made after its worker had ended was missed a seat",
    6000: "a node that came back did not take up its Pods",
    6158: "a seat was given back that another process had booked and was about to commit",
    7101: "a Pod was made again after a write that changed nothing, and its seat was released under it",
    8037: "workers that came at once were held to an order although all had room",
    500512: "an older compaction brought the floor of the history down, and a watch skipped an event",
    500686: "a seat on a worker's own claim that the cache did not show stayed behind it",
    500991: "a seat that another process adopted meanwhile stayed behind its worker",
    3000675: "a status of the leader before came after the news of the Pod, and stood for good",
    4001797: "a release was tried again after the create of the Pod had landed late",
    5001337: "two controllers, one of them behind, answered each other's status writes for ever",
    6000445: "workers of one process raced each other for one ledger, and the oldest lost every round",
    9002130: "a claim that refused its worker was not given up for hours after a clock had been set back",
    10001114: "a Pod that landed late, after the last look for it, was held against its worker",
    11000171: "a claim without its label stayed in the cache when it was gone, for good",
}
"""Seeds that failed once, and why. What else they draw changes with the drawing code."""


def alone(name: str, seed: int) -> FaultPlan:
    return FaultPlan(MappingProxyType({name: FAULTS[name].draw(Streams(seed).get(name))}))


def said(outcome: RunOutcome) -> str:
    return "\n".join(outcome.failures)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(3))
def test_a_run_without_faults_passes(seed: int) -> None:
    outcome = simulate(seed, without=tuple(FAULTS))

    assert outcome.passed, said(outcome)
    assert not outcome.plan.faults
    assert outcome.seconds >= 30 * 60


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_alone_is_survived_and_shows(name: str) -> None:
    hits = 0
    for seed in range(8):
        outcome = simulate(seed, plan=alone(name, seed))
        assert outcome.passed, said(outcome)
        hits = outcome.coverage.get(SHOWS.get(name, ""), 0)
        if hits or name not in SHOWS:
            return
    pytest.fail(f"{SHOWS[name]} was never seen")


def small(scenario: Scenario) -> Scenario:
    """The first acts of a scenario: fewer workers, so that something of all faults falls on each of them."""
    return Scenario(
        scenario.nodes, scenario.settings, 2, scenario.actions[:20], scenario.ample, scenario.delays
    )


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(4))
def test_all_faults_at_once_are_survived(seed: int) -> None:
    streams = Streams(seed)
    drawn = {name: fault.draw(streams.get(name)) for name, fault in FAULTS.items()}
    outcome = simulate(seed, scenario=small(draw_scenario(streams)), plan=FaultPlan(MappingProxyType(drawn)))

    assert outcome.passed, said(outcome)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", REGRESSIONS)
def test_a_seed_that_failed_once_passes(seed: int) -> None:
    outcome = simulate(seed)

    assert outcome.passed, said(outcome)


@pytest.mark.timeout(1800)
def test_a_batch_of_seeds_passes_twice_with_equal_digests_and_shows_everything() -> None:
    command = [sys.executable, "-m", "simulation", "--seeds", str(SEEDS), "--start", str(START)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr
