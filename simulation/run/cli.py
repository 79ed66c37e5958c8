"""The command line of the simulation: options, report and exit status.

Exit status: 0 if every run passed; 1 if a run failed or a batch missed a coverage point; 2 for invalid usage;
130 when interrupted. An error is one line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import count
from typing import NoReturn

import anyio
import click
from click.core import ParameterSource

from simulation.command_line.exit_status import INTERRUPTED, failed, join_names, run_and_exit
from simulation.command_line.values import PositiveNumber, UniqueOptionsCommand, WholeNumber
from simulation.engine.fault_plan import FAULTS
from simulation.run.batch import Batch, WorkerFailed
from simulation.run.progress import BatchProgress
from simulation.run.report import run_report
from simulation.run.simulate import simulate

PROGRAM = "python -m simulation"
SEED_MAX = 2**63 - 1
MINUTES_MAX = 7 * 24 * 60
"""A week."""
JOBS_MIN = 2
"""The two runs of a seed need two processes."""

MODES = ("seed", "seeds", "minutes")
"""The options that select the seeds."""

EXIT_STATUS = (
    "Exit status: 0 if every run passed; 1 if a run failed or a batch missed a coverage point; 2 for invalid "
    "usage; 130 when interrupted."
)


def _known_faults(
    _context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        if name not in FAULTS:
            raise click.BadParameter(f"unknown fault {name!r}; the faults are {', '.join(FAULTS)}")
    return names


@click.command(
    cls=UniqueOptionsCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_STATUS,
)
@click.option("--seed", type=WholeNumber(0, SEED_MAX), help="A single seed to run")
@click.option("--seeds", type=WholeNumber(1), help="Number of seeds to run, each twice")
@click.option("--start", type=WholeNumber(0, SEED_MAX), default=0, show_default=True, help="First seed")
@click.option(
    "--minutes",
    type=PositiveNumber(MINUTES_MAX, example="10"),
    help="Minutes to run seeds for, each twice",
)
@click.option(
    "--without",
    multiple=True,
    metavar="FAULT",
    callback=_known_faults,
    help="Fault to leave out (repeatable)",
)
@click.option(
    "--jobs",
    type=WholeNumber(JOBS_MIN),
    default=max(JOBS_MIN, os.cpu_count() or 1),
    show_default="one per core",
    help="Number of processes",
)
@click.pass_context
def cli(
    context: click.Context,
    *,
    seed: int | None,
    seeds: int | None,
    start: int,
    minutes: float | None,
    without: tuple[str, ...],
    jobs: int,
) -> None:
    """Run the whole controller in a simulated cluster, under faults that are drawn from a seed.

    The same seed is the same run on every machine. Use --seed for one run, --seeds or --minutes for many.
    """
    _require_one_mode(context)
    if seed is not None:
        context.exit(_run_one(seed, without))
    context.exit(_run_many(_seeds(start, seeds, minutes), seeds, without, jobs))


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    run_and_exit(cli, program=PROGRAM)


def _require_one_mode(context: click.Context) -> None:
    """Reject options that would be ignored."""
    given = {mode: context.params[mode] for mode in MODES if context.params[mode] is not None}
    options = [
        f"--{mode} {value:g}" if mode == "minutes" else f"--{mode} {value}" for mode, value in given.items()
    ]
    if len(options) != 1:
        conflict = f"{join_names(options, 'and')} exclude each other: " if options else ""
        raise click.UsageError(f"{conflict}use one of {', '.join(f'--{mode}' for mode in MODES)}")
    if "seed" not in given:
        return
    for option in ("start", "jobs"):
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option} requires --seeds or --minutes")


def _run_one(seed: int, without: tuple[str, ...]) -> int:
    outcome = simulate(seed, without=without)
    for line in run_report(outcome, without=without):
        click.echo(line)
    click.echo(f"digest {outcome.digest}")
    return 0 if outcome.passed else 1


def _seeds(start: int, number: int | None, minutes: float | None) -> Iterator[int]:
    ends = time.monotonic() + minutes * 60 if minutes is not None else None
    for seed in count(start):
        if (number is not None and seed >= start + number) or (ends is not None and time.monotonic() >= ends):
            return
        yield seed


def _run_many(seeds: Iterator[int], number: int | None, without: tuple[str, ...], jobs: int) -> int:
    """Run a batch and print its summary, even if the batch was interrupted."""
    problem, status = "", 0
    with BatchProgress(number, without=without, now=time.monotonic) as progress:
        batch = Batch(seeds, without=without, jobs=jobs, report=progress.add)
        try:
            problem = _run_batch(batch)
            status = 1 if problem else 0
        except KeyboardInterrupt:
            problem, status = "interrupted", INTERRUPTED
    for line in progress.summary.lines():
        click.echo(line)
    if problem:
        return failed(problem, status)
    return 0 if progress.summary.passed else 1


def _run_batch(batch: Batch) -> str:
    """Run a batch; return the problem that ended it early, empty if none did."""
    problem = ""
    try:
        anyio.run(batch.run)
    except* WorkerFailed as errors:
        problem = "; ".join(str(error) for error in errors.exceptions)
    return problem
