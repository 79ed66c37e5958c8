"""The command line: what it prints, what it refuses, and its exit statuses."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import MappingProxyType
from typing import Self

import anyio
import pytest
from click.testing import CliRunner, Result

from simulation import batch, cli
from simulation.plan import FAULTS, Plan
from simulation.progress import BatchProgress
from simulation.report import Summary, replay_command, run_report
from simulation.run import Outcome
from simulation.sometimes import BATCH_MIN, POINTS
from simulation.trace import TraceEvent

PASSED = Outcome(
    seed=7,
    digest="00112233aabbccdd",
    failures=(),
    plan=Plan(MappingProxyType({"latency": {"median_seconds": 0.0123456}, "starved-bookmarks": {}})),
    scenario="mixed: 2 nodes",
    seconds=2345.6,
    events_total=4321,
    sometimes=dict.fromkeys(POINTS, 1),
)
FAILED = replace(
    PASSED,
    failures=("Workload w1 is gone, and nobody deleted it",),
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
what was wrong
  Workload w1 is gone, and nobody deleted it
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


def failing(_seed: int, **_options: object) -> Outcome:
    return FAILED


def test_a_seed_that_fails_is_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "simulate", failing)
    result = run("--seed", "7", "--without", "crashes")

    assert result.exit_code == 1
    assert result.stdout == GOLDEN + "digest 00112233aabbccdd\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "error: say one of --seed, --seeds and --minutes"),
        (["--seed", "1", "--seeds", "2"], "error: say one of --seed, --seeds and --minutes"),
        (["--seed", "x"], "error: Invalid value for '--seed': 'x' is not a valid integer range."),
        (["--seeds", "0"], "error: Invalid value for '--seeds': 0 is not in the range x>=1."),
        (["--minutes", "0"], "error: Invalid value for '--minutes': 0.0 is not in the range x>0."),
        (["--seed", "1", "--without", "rain"], f"'rain' is no fault; the faults are {', '.join(FAULTS)}"),
        (["--speed", "1"], "error: No such option '--speed'."),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: list[str], said: str) -> None:
    command = [sys.executable, "-m", "simulation", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert said in ended.stderr


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

    async def run(self, seed: int, without: tuple[str, ...]) -> Outcome:
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

    assert result.exit_code == cli.INTERRUPTED
    assert replay_command(3) in result.stdout
    assert result.stdout.splitlines()[-1] == "failed: 3"
    assert result.stderr == "error: interrupted\n"


@pytest.mark.parametrize(("number", "of_all"), [(3000, " of 3000"), (None, "")])
def test_a_failure_is_told_at_once_and_elsewhere_than_on_a_terminal_a_line_a_minute(
    number: int | None, of_all: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = itertools.count(0, 30)
    with BatchProgress(number, without=(), now=lambda: float(next(seconds))) as progress:
        progress.done(PASSED)
        assert capsys.readouterr() == ("", "")
        progress.done(replace(FAILED, seed=8))
        told = capsys.readouterr()
        assert replay_command(8) in told.out
        assert told.err == f"2{of_all} seeds, 1 failed\n"
        for seed in range(10, 20):
            progress.done(replace(FAILED, seed=seed))
        assert "seed 19 FAILED as well: python -m simulation --seed 19" in capsys.readouterr().out


def test_a_large_batch_that_never_saw_something_is_vacuous() -> None:
    summary = Summary()
    lacking = dict(PASSED.sometimes)
    del lacking["hand-off"]
    for seed in range(BATCH_MIN):
        assert summary.passed, "a small batch need not show everything"
        summary.add(replace(PASSED, seed=seed, sometimes=lacking))

    assert not summary.passed
    assert "never hit: hand-off" in list(summary.lines())


def test_a_worker_that_dies_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    result = run("--seeds", "1", "--jobs", "2")

    assert result.exit_code == 1
    assert "error: the process that ran seed 0 ended" in result.stderr
