"""The command line of the simulation: options in, a report out, an exit status.

Exit status: 0 if every run passed, 1 if one failed or a batch was vacuous, 2 for what cannot work as called,
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
"""A seed's two runs are in two processes."""

WAYS = ("seed", "seeds", "minutes")
"""The options that say what is run."""

EXIT_STATUS = (
    "Exit status: 0 if every run passed, 1 if one failed or a batch was vacuous, 2 for what cannot work as "
    "called, 130 when interrupted."
)


def _known_faults(
    _context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        if name not in FAULTS:
            raise click.BadParameter(f"{name!r} is no fault; the faults are {', '.join(FAULTS)}")
    return names


@click.command(
    cls=UniqueOptionsCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_STATUS,
)
@click.option("--seed", type=WholeNumber(0, SEED_MAX), help="Run this one seed and print its digest")
@click.option("--seeds", type=WholeNumber(1), help="Run so many seeds, each twice")
@click.option(
    "--start", type=WholeNumber(0, SEED_MAX), default=0, show_default=True, help="The first of many seeds"
)
@click.option(
    "--minutes",
    type=PositiveNumber(MINUTES_MAX, example="10"),
    help="Run seeds for so long, each twice",
)
@click.option(
    "--without", multiple=True, metavar="FAULT", callback=_known_faults, help="Leave a fault out (repeatable)"
)
@click.option(
    "--jobs",
    type=WholeNumber(JOBS_MIN),
    default=max(JOBS_MIN, os.cpu_count() or 1),
    show_default="one per core",
    help="Processes to run many seeds in",
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

    The same seed is the same run, on any machine. Say --seed for one, --seeds or --minutes for many.
    """
    _require_one_way(context)
    if seed is not None:
        context.exit(_run_one(seed, without))
    context.exit(_run_many(_seeds(start, seeds, minutes), seeds, without, jobs))


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    run_and_exit(cli, program=PROGRAM)


def _require_one_way(context: click.Context) -> None:
    """Refuse what would be ignored."""
    given = {way: context.params[way] for way in WAYS if context.params[way] is not None}
    said = [f"--{way} {value if isinstance(value, int) else f'{value:g}'}" for way, value in given.items()]
    if len(said) != 1:
        conflict = f"{join_names(said, 'and')} exclude each other: " if said else ""
        raise click.UsageError(f"{conflict}say one of {', '.join(f'--{way}' for way in WAYS)}")
    if "seed" not in given:
        return
    for option in ("start", "jobs"):
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option} is for --seeds and --minutes")


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
    """Run them and sum up what was run, also where that is less than was asked for."""
    trouble, status = "", 0
    with BatchProgress(number, without=without, now=time.monotonic) as progress:
        batch = Batch(seeds, without=without, jobs=jobs, report=progress.done)
        try:
            trouble = _trouble_of(batch)
            status = 1 if trouble else 0
        except KeyboardInterrupt:
            trouble, status = "interrupted", INTERRUPTED
    for line in progress.summary.lines():
        click.echo(line)
    if trouble:
        return failed(trouble, status)
    return 0 if progress.summary.passed else 1


def _trouble_of(batch: Batch) -> str:
    """Run a batch; returns what kept it from being carried through, empty if nothing did."""
    trouble = ""
    try:
        anyio.run(batch.run)
    except* WorkerFailed as errors:
        trouble = "; ".join(str(error) for error in errors.exceptions)
    return trouble
