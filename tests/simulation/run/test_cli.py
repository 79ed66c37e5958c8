"""The command line: output, rejected input, and exit statuses."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from types import MappingProxyType
from typing import Self

import anyio
import pytest
from click.testing import CliRunner, Result

from simulation.chaos.scenario import draw_scenario
from simulation.checks.coverage import BATCH_MIN, POINTS
from simulation.command_line.exit_status import INTERRUPTED
from simulation.engine.fault_plan import FAULTS, FaultPlan
from simulation.engine.random_streams import Streams
from simulation.engine.trace import TraceEvent
from simulation.run import batch, cli
from simulation.run.progress import BatchProgress
from simulation.run.report import Summary, replay_command, run_report
from simulation.run.simulate import RunOutcome

PASSED = RunOutcome(
    seed=7,
    digest="00112233aabbccdd",
    failures=(),
    plan=FaultPlan(MappingProxyType({"latency": {"median_seconds": 0.0123456}, "starved-bookmarks": {}})),
    scenario="mixed: 2 nodes",
    seconds=2345.6,
    events_total=4321,
    coverage=dict.fromkeys(POINTS, 1),
)
FAILED = replace(
    PASSED,
    failures=("Workload w1 does not exist although nobody deleted it",),
    last_events=(
        TraceEvent(12.0004, "controller-0.1", "patch", "claimledgers", "ledger-w1-00000011", "Conflict"),
        TraceEvent(
            1234.5678, "store", "DELETED", "pods", "orw-a-name-that-is-far-too-long-for-its-column", "99"
        ),
    ),
)
GOLDEN = """\
seed 7 FAILED: 39.1 virtual minutes, 4321 events
  scenario  mixed: 2 nodes
  faults    latency (median_seconds 0.0123); starved-bookmarks
  replay    python -m simulation --seed 7 --without crashes
violations
  Workload w1 does not exist although nobody deleted it
last events
       time process           verb      kind              name                              outcome
     12.000 controller-0.1    patch     claimledgers      ledger-w1-00000011                Conflict
   1234.568 store             DELETED   pods              orw-a-name-that-is-far-too-long-f 99
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.cli, arguments)


def test_a_failure_report_has_all_details_for_debugging() -> None:
    assert "\n".join(run_report(FAILED, without=("crashes",))) + "\n" == GOLDEN


def test_a_single_run_prints_its_digest_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "simulate", lambda _seed, *, without: replace(PASSED, scenario=f"{without}"))
    result = run("--seed", "7", "--without", "crashes", "--without", "latency")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "digest 00112233aabbccdd"
    assert "('crashes', 'latency')" in result.stdout


def test_a_scenario_labels_its_numbers() -> None:
    output = str(draw_scenario(Streams(7)))
    assert re.search(
        r"\d+ nodes, \d+ Workloads, \d+ replicas, .* [1248] reconciles at once, lease \d+ s", output
    )


def failing(_seed: int, **_options: object) -> RunOutcome:
    return FAILED


def test_a_failed_run_has_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "simulate", failing)
    result = run("--seed", "7", "--without", "crashes")

    assert result.exit_code == 1
    assert result.stdout == GOLDEN + "digest 00112233aabbccdd\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "use one of --seed, --seeds, --minutes"),
        (
            ["--seed=7", "--seeds=4"],
            "--seed 7 and --seeds 4 exclude each other: use one of --seed, --seeds, --minutes",
        ),
        (
            ["--seed=7", "--seeds=4", "--minutes=2.5"],
            "--seed 7, --seeds 4 and --minutes 2.5 exclude each other: use one of --seed, --seeds, --minutes",
        ),
        (["--seed=7", "--start=3", "--jobs=2"], "--start requires --seeds or --minutes"),
        (["--seed=7", "--jobs=2"], "--jobs requires --seeds or --minutes"),
        (["--seed=7", "--seed=8"], "--seed: given more than once"),
        (["--seed=x"], "--seed: 'x' is not allowed: a whole number from 0 to 9223372036854775807"),
        (["--seeds=0"], "--seeds: 0 is not allowed: a whole number, at least 1"),
        (["--seeds=2", "--jobs=1"], "--jobs: 1 is not allowed: a whole number, at least 2"),
        (["--minutes=inf"], "--minutes: 'inf' is not allowed: a number above 0, up to 10080, such as 10"),
        (["--minutes=1e308"], "--minutes: 1e308 is not allowed: a number above 0, up to 10080, such as 10"),
        (
            ["--seed=1", "--without=rain"],
            f"--without: unknown fault 'rain'; the faults are {', '.join(FAULTS)}",
        ),
        (["--speed=1"], "No such option '--speed'."),
    ],
)
def test_invalid_usage_prints_one_line_and_has_exit_status_2(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["simulation", *arguments])
    with pytest.raises(SystemExit) as result:
        cli.main()

    assert result.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert re.match(rf"error: {re.escape(message)}.*\n\Z", output.err)


def test_the_package_runs_the_command_line() -> None:
    command = [sys.executable, "-m", "simulation", "--seeds=0"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "error: --seeds: 0 is not allowed: a whole number, at least 1\n"


def test_the_help_explains_the_exit_status() -> None:
    output = " ".join(run("--help").stdout.split())
    assert "Exit status: 0 if every run passed; 1 if a run failed" in output


def search_for_plants(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation.plants", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_unknown_plant_is_rejected_with_the_known_ones() -> None:
    result = search_for_plants("limit-for-joiners-only", "nope")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(
        "error: NAME: unknown plant 'nope'; the plants are limit-for-joiners-only, "
    )
    assert result.stderr.count("\n") == 1


def test_the_search_for_planted_bugs_has_a_help() -> None:
    result = search_for_plants("--help")

    assert (result.returncode, result.stderr) == (0, "")
    assert "[NAME]..." in result.stdout


# Batches.


class StubWorker:
    """A worker that returns at once. For the seeds in `differs`, its processes return different digests."""

    differs: frozenset[int] = frozenset()
    interrupted_at: int | None = None

    def __init__(self, hash_seed: str) -> None:
        self.hash_seed = hash_seed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def run(self, seed: int, without: tuple[str, ...]) -> RunOutcome:
        if seed == self.interrupted_at:
            os.kill(os.getpid(), signal.SIGINT)
            await anyio.sleep_forever()
        digest = f"{seed}/{self.hash_seed}" if seed in self.differs else f"{seed}"
        return replace(PASSED, seed=seed, digest=digest, scenario=f"{without}")


@pytest.fixture
def stub_worker(monkeypatch: pytest.MonkeyPatch) -> type[StubWorker]:
    monkeypatch.setattr(batch, "Worker", StubWorker)
    monkeypatch.setattr(StubWorker, "differs", frozenset())
    return StubWorker


@pytest.mark.usefixtures("stub_worker")
def test_a_batch_counts_each_seed_once() -> None:
    result = run("--seeds", "20", "--start", "100", "--jobs", "4")

    assert result.exit_code == 0
    assert "20 seeds, each run twice; 13.0 virtual hours" in result.stdout
    assert "latency 20; error-bursts 0" in result.stdout
    assert result.stdout.splitlines()[-1] == "no seed failed"


def test_different_digests_fail_a_seed(
    stub_worker: type[StubWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stub_worker, "differs", frozenset({13}))
    result = run("--seeds", "20")

    assert result.exit_code == 1
    assert "the run is not deterministic: digests 13/" in result.stdout
    assert replay_command(13) in result.stdout
    assert result.stdout.splitlines()[-1] == "failed: 13"


def test_an_interrupted_batch_reports_its_results(
    stub_worker: type[StubWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stub_worker, "differs", frozenset({3}))
    monkeypatch.setattr(stub_worker, "interrupted_at", 40)
    result = run("--seeds", "100")

    assert result.exit_code == INTERRUPTED
    assert replay_command(3) in result.stdout
    assert result.stdout.splitlines()[-1] == "failed: 3"
    assert result.stderr == "error: interrupted\n"


@pytest.mark.parametrize(("number", "of_total"), [(3000, " of 3000"), (None, "")])
def test_failures_are_reported_at_once_and_progress_once_a_minute(
    number: int | None, of_total: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = itertools.count(0, 30)
    with BatchProgress(number, without=(), now=lambda: float(next(seconds))) as progress:
        progress.add(PASSED)
        assert capsys.readouterr() == ("", "")
        progress.add(replace(FAILED, seed=8))
        output = capsys.readouterr()
        assert replay_command(8) in output.out
        assert output.err == f"2{of_total} seeds, 1 failed\n"
        for seed in range(10, 20):
            progress.add(replace(FAILED, seed=seed))
        assert "seed 19 FAILED as well: python -m simulation --seed 19" in capsys.readouterr().out


def test_a_large_batch_that_misses_a_coverage_point_fails() -> None:
    summary = Summary()
    coverage = dict(PASSED.coverage)
    del coverage["hand-off"]
    for seed in range(BATCH_MIN):
        assert summary.passed, "a small batch need not hit every point"
        summary.add(replace(PASSED, seed=seed, coverage=coverage))

    assert not summary.passed
    assert "never hit: hand-off" in list(summary.lines())


def test_a_dead_worker_process_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    result = run("--seeds", "1", "--jobs", "2")

    assert result.exit_code == 1
    assert "error: the process that ran seed 0 ended" in result.stderr
