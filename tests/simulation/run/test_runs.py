"""Whole runs as tests: no fault, each fault alone, all faults, seeds that once failed, and a batch."""

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

SEEDS, START = 24, 1000
"""The batch of every test run. The long tests run one that is large enough for the coverage points."""

POINT_OF_FAULT: dict[str, str] = {
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
"""The coverage point that a run with only this fault must hit."""

REGRESSIONS: dict[int, str] = {
    13: "idle-capacity check: devices too small for the waiting workers counted as free",
    62: "a claim deleted together with its ledger ended under a new ledger",
    338: "the scheduler overcommitted a node while bindings were slow",
    2029: "a fast clock turned the end of a watch's wait into a busy loop",
    5163: "a Pod created after its Workload became terminal was reported as lacking a seat",
    6000: "a returned node did not start its Pods",
    6158: "a seat was released that another process had booked and was about to commit",
    7101: "a Pod was recreated after a write without a change, and its seat was released under it",
    8037: "simultaneous workers were checked for order although all of them fitted",
    500512: "an older compaction lowered the history floor, and a watch skipped an event",
    500686: "a seat on a worker's own claim was left behind because the cache did not show it",
    500991: "a seat was left behind that another process adopted meanwhile",
    3000675: "a late status write by the previous leader was never corrected",
    4001797: "a release was retried after the late creation of the Pod",
    5001337: "two controllers, one with a stale cache, overwrote each other's status forever",
    6000445: "workers of one process raced for one ledger, and the oldest lost every round",
    9002130: "a claim that refused its worker was not abandoned for hours after a clock went back",
    10001114: "a Pod created late, after the last read of it, was treated as a conflict",
    11000171: "a deleted claim without its label stayed in the cache forever",
}
"""Seeds that failed once, and the bug. Their draws change with the code."""


def alone(name: str, seed: int) -> FaultPlan:
    return FaultPlan(MappingProxyType({name: FAULTS[name].draw(Streams(seed).get(name))}))


def failures_of(outcome: RunOutcome) -> str:
    return "\n".join(outcome.failures)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(3))
def test_a_run_without_faults_passes(seed: int) -> None:
    outcome = simulate(seed, without=tuple(FAULTS))

    assert outcome.passed, failures_of(outcome)
    assert not outcome.plan.faults
    assert outcome.seconds >= 30 * 60


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", FAULTS)
def test_a_run_with_one_fault_passes_and_hits_its_point(name: str) -> None:
    hits = 0
    for seed in range(8):
        outcome = simulate(seed, plan=alone(name, seed))
        assert outcome.passed, failures_of(outcome)
        hits = outcome.coverage.get(POINT_OF_FAULT.get(name, ""), 0)
        if hits or name not in POINT_OF_FAULT:
            return
    pytest.fail(f"{POINT_OF_FAULT[name]} was never hit")


def shortened(scenario: Scenario) -> Scenario:
    """Return a scenario with its first actions only, so that all faults affect each worker."""
    return Scenario(
        scenario.nodes, scenario.settings, 2, scenario.actions[:20], scenario.ample, scenario.delays
    )


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(4))
def test_a_run_with_all_faults_passes(seed: int) -> None:
    streams = Streams(seed)
    parameters = {name: fault.draw(streams.get(name)) for name, fault in FAULTS.items()}
    outcome = simulate(
        seed, scenario=shortened(draw_scenario(streams)), plan=FaultPlan(MappingProxyType(parameters))
    )

    assert outcome.passed, failures_of(outcome)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", REGRESSIONS)
def test_a_regression_seed_passes(seed: int) -> None:
    outcome = simulate(seed)

    assert outcome.passed, failures_of(outcome)


@pytest.mark.timeout(900)
def test_a_batch_passes_with_equal_digests() -> None:
    run_batch(SEEDS)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_large_batch_passes_with_equal_digests_and_hits_every_point() -> None:
    run_batch(BATCH_MIN)


def run_batch(seeds: int) -> None:
    command = [sys.executable, "-m", "simulation", "--seeds", str(seeds), "--start", str(START)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout + result.stderr
