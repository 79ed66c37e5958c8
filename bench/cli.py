"""The edge of the process: options in, tables and a JSON file out.

Exit status: 0 for a run that was measured, whatever its figures; 1 for one that could not be, 2 for what
cannot work as called or where a tool is missing, 130 when interrupted. An error is one line; what a
contender said last may stand above it.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

import anyio
import click
import msgspec
from rich.console import Console

from bench.errors import BenchError
from bench.report.details import all_tables
from bench.report.document import with_results
from bench.report.table import print_tables
from bench.runner import BenchPlan, measure
from bench.samples import Results, gather
from bench.scenarios.catalog import INFORMER_GROUP, TITLES
from e2e.controlplane import ControlPlaneError
from simulation.command_line.exit_status import run_and_exit
from simulation.command_line.values import UniqueOptionsCommand, WholeNumber

DEFAULT_JSON = Path("build/bench/results.json")
WIDTH_COLUMNS = 160
"""Where the output is no terminal: tables are not folded to 80 columns."""

FILE = click.Path(dir_okay=False, path_type=Path)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    cls=UniqueOptionsCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--scenario",
    "names",
    multiple=True,
    type=click.Choice([*TITLES, INFORMER_GROUP]),
    help="Measure only this one, or all of one kind; may be given several times  [default: all]",
)
@click.option("--rounds", type=WholeNumber(1), help="Rounds of each scenario  [default: its own number]")
@click.option("--quick", is_flag=True, help="Small sizes: shows that it works, the figures mean little")
@click.option("--list", "list_only", is_flag=True, help="List the scenarios and exit")
@click.option("--json", "json_path", type=FILE, default=DEFAULT_JSON, show_default=True, help="Results file")
@click.option("--markdown", type=EXISTING_FILE, help="Replace the results in this document too")
@click.option("--from", "source", type=EXISTING_FILE, help="Measure nothing: show the results in this file")
@click.option(
    "--profile",
    type=click.Path(file_okay=False, path_type=Path),
    help="Run the controller under cProfile and keep the profiles in this folder (it is slower then)",
)
def cli(
    *,
    names: tuple[str, ...],
    rounds: int | None,
    quick: bool,
    list_only: bool,
    json_path: Path,
    markdown: Path | None,
    source: Path | None,
    profile: Path | None,
) -> None:
    """Measure the controller on a real control plane, side by side with a bare writer; and its informers.

    The programs of the control plane are built on first use, which takes some minutes and needs Go.
    """
    if list_only:
        for name, title in TITLES.items():
            click.echo(f"{name:17} {title}")
        return
    if source is not None:
        results = Results.read(source)
    else:
        results = _measured(BenchPlan.of(names, quick=quick, rounds=rounds), profile)
        results.write(json_path)
        click.echo(f"Wrote {json_path}", err=True)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH_COLUMNS)
    print_tables(all_tables(results.samples), console)
    if markdown is not None:
        document = with_results(markdown.read_text(encoding="utf-8"), results)
        markdown.write_text(document, encoding="utf-8")
        click.echo(f"Wrote {markdown}", err=True)


def _measured(plan: BenchPlan, profile: Path | None) -> Results:
    signal.signal(signal.SIGTERM, _interrupt)
    if profile is not None:
        profile.mkdir(parents=True, exist_ok=True)
    facts = gather(sys.argv[1:])
    samples = anyio.run(measure, plan, profile, _progress, backend_options={"use_uvloop": True})
    return Results(facts=facts, samples=samples)


def main() -> NoReturn:
    """Run the command line; turn every expected error into one line and an exit status."""
    run_and_exit(
        cli,
        program="python -m bench",
        expected=(BenchError, ControlPlaneError, msgspec.MsgspecError, OSError),
    )


def _progress(line: str) -> None:
    click.echo(line, err=True)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Treat SIGTERM as Ctrl-C, so that everything is stopped on the way out."""
    raise KeyboardInterrupt
