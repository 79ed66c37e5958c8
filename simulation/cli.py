"""The command line of the simulation: options in, a report out, an exit status.

Exit status: 0 if every run passed, 1 if one failed or a batch was vacuous, 2 for what cannot work as called,
130 when interrupted. An error is one line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from itertools import count

import anyio
import click

from simulation.batch import Batch, WorkerFailed
from simulation.plan import FAULTS
from simulation.progress import BatchProgress
from simulation.report import run_report
from simulation.run import simulate

PROGRAM = "python -m simulation"
INTERRUPTED = 130
SEED_MAX = 2**63 - 1


def _known_faults(
    _context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        if name not in FAULTS:
            raise click.BadParameter(f"{name!r} is no fault; the faults are {', '.join(FAULTS)}")
    return names


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--seed", type=click.IntRange(0, SEED_MAX), help="Run this one seed and print its digest")
@click.option("--seeds", type=click.IntRange(1), help="Run so many seeds, each twice")
@click.option(
    "--start", type=click.IntRange(0, SEED_MAX), default=0, show_default=True, help="The first of many seeds"
)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Run seeds for so long, each twice")
@click.option(
    "--without", multiple=True, metavar="FAULT", callback=_known_faults, help="Leave a fault out (repeatable)"
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="Processes to run, at least 2  [default: one per core]",
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
    if sum(option is not None for option in (seed, seeds, minutes)) != 1:
        raise click.UsageError("say one of --seed, --seeds and --minutes")
    if seed is not None:
        context.exit(_run_one(seed, without))
    context.exit(_run_many(_seeds(start, seeds, minutes), seeds, without, jobs))


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        status = cli.main(prog_name=PROGRAM, standalone_mode=False) or 0
    except click.ClickException as error:
        status = _failed(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        status = _failed("interrupted", INTERRUPTED)
    sys.exit(status)


def _failed(message: str, status: int) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return status


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
        return _failed(trouble, status)
    return 0 if progress.summary.passed else 1


def _trouble_of(batch: Batch) -> str:
    """Run a batch; returns what kept it from being carried through, empty if nothing did."""
    trouble = ""
    try:
        anyio.run(batch.run)
    except* WorkerFailed as errors:
        trouble = "; ".join(str(error) for error in errors.exceptions)
    return trouble
