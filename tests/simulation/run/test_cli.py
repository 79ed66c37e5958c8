"""The command line: what it prints, what it refuses, and its exit statuses."""

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


def test_a_failure_is_reported_with_all_that_is_needed_to_look_into_it() -> None:
    assert "\n".join(run_report(FAILED, without=("crashes",))) + "\n" == GOLDEN


def test_one_seed_ends_with_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "simulate", lambda _seed, *, without: replace(PASSED, scenario=f"{without}"))
    result = run("--seed", "7", "--without", "crashes", "--without", "latency")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "digest 00112233aabbccdd"
    assert "('crashes', 'latency')" in result.stdout


def test_a_scenario_says_what_its_numbers_count() -> None:
    told = str(draw_scenario(Streams(7)))
    assert re.search(
        r"\d+ nodes, \d+ Workloads, \d+ replicas, .* [1248] reconciles at once, lease \d+ s", told
    )


def failing(_seed: int, **_options: object) -> RunOutcome:
    return FAILED


def test_a_seed_that_fails_is_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "simulate", failing)
    result = run("--seed", "7", "--without", "crashes")

    assert result.exit_code == 1
    assert result.stdout == GOLDEN + "digest 00112233aabbccdd\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
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
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["simulation", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert re.match(rf"error: {re.escape(said)}.*\n\Z", shown.err)


def test_the_module_is_the_command_line() -> None:
    command = [sys.executable, "-m", "simulation", "--seeds=0"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "error: --seeds: 0 is not allowed: a whole number, at least 1\n"


def test_the_help_says_how_it_ends() -> None:
    shown = " ".join(run("--help").stdout.split())
    assert "Exit status: 0 if every run passed; 1 if a run failed" in shown


def search_for_plants(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation.plants", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_name_that_is_no_planted_bug_is_refused_with_those_that_are() -> None:
    ended = search_for_plants("limit-for-joiners-only", "nope")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: NAME: 'nope' is no plant; the plants are limit-for-joiners-only, ")
    assert ended.stderr.count("\n") == 1


def test_the_search_for_planted_bugs_has_a_help() -> None:
    ended = search_for_plants("--help")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "[NAME]..." in ended.stdout


# Batches.


class Answering:
    """A worker that answers at once, with other digests in its other process where it is told to."""

    differs: frozenset[int] = frozenset()
    interrupts: int | None = None

    def __init__(self, hash_seed: str) -> None:
        self.hash_seed = hash_seed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def run(self, seed: int, without: tuple[str, ...]) -> RunOutcome:
        if seed == self.interrupts:
            os.kill(os.getpid(), signal.SIGINT)
            await anyio.sleep_forever()
        digest = f"{seed}/{self.hash_seed}" if seed in self.differs else f"{seed}"
        return replace(PASSED, seed=seed, digest=digest, scenario=f"{without}")


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> type[Answering]:
    monkeypatch.setattr(batch, "Worker", Answering)
    monkeypatch.setattr(Answering, "differs", frozenset())
    return Answering


@pytest.mark.usefixtures("answering")
def test_a_batch_counts_each_seed_once() -> None:
    result = run("--seeds", "20", "--start", "100", "--jobs", "4")

    assert result.exit_code == 0
    assert "20 seeds, each run twice; 13.0 virtual hours" in result.stdout
    assert "latency 20; error-bursts 0" in result.stdout
    assert result.stdout.splitlines()[-1] == "no seed failed"


def test_digests_that_differ_fail_a_seed(answering: type[Answering], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "differs", frozenset({13}))
    result = run("--seeds", "20")

    assert result.exit_code == 1
    assert "the run is not deterministic: digests 13/" in result.stdout
    assert replay_command(13) in result.stdout
    assert result.stdout.splitlines()[-1] == "failed: 13"


def test_a_batch_that_is_interrupted_has_told_what_it_found(
    answering: type[Answering], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "differs", frozenset({3}))
    monkeypatch.setattr(answering, "interrupts", 40)
    result = run("--seeds", "100")

    assert result.exit_code == INTERRUPTED
    assert replay_command(3) in result.stdout
    assert result.stdout.splitlines()[-1] == "failed: 3"
    assert result.stderr == "error: interrupted\n"


@pytest.mark.parametrize(("number", "of_all"), [(3000, " of 3000"), (None, "")])
def test_a_failure_is_told_at_once_and_elsewhere_than_on_a_terminal_a_line_a_minute(
    number: int | None, of_all: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = itertools.count(0, 30)
    with BatchProgress(number, without=(), now=lambda: float(next(seconds))) as progress:
        progress.add(PASSED)
        assert capsys.readouterr() == ("", "")
        progress.add(replace(FAILED, seed=8))
        told = capsys.readouterr()
        assert replay_command(8) in told.out
        assert told.err == f"2{of_all} seeds, 1 failed\n"
        for seed in range(10, 20):
            progress.add(replace(FAILED, seed=seed))
        assert "seed 19 FAILED as well: python -m simulation --seed 19" in capsys.readouterr().out


def test_a_large_batch_that_never_saw_something_is_vacuous() -> None:
    summary = Summary()
    lacking = dict(PASSED.coverage)
    del lacking["hand-off"]
    for seed in range(BATCH_MIN):
        assert summary.passed, "a small batch need not show everything"
        summary.add(replace(PASSED, seed=seed, coverage=lacking))

    assert not summary.passed
    assert "never hit: hand-off" in list(summary.lines())


def test_a_worker_that_dies_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    result = run("--seeds", "1", "--jobs", "2")

    assert result.exit_code == 1
    assert "error: the process that ran seed 0 ended" in result.stderr
