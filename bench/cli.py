"""The command line of the benchmarks: it parses options, prints tables and writes a JSON file.

Exit status: 0 for a completed run, whatever its figures; 1 for a failed one; 2 for invalid options or a
missing tool; 130 after an interrupt. An error is one line. The last log lines of a contender may precede it.
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
"""Table width if the output is not a terminal."""

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
    help="Scenario or group of scenarios to measure; repeatable  [default: all]",
)
@click.option("--rounds", type=WholeNumber(1), help="Rounds per scenario  [default: set by the scenario]")
@click.option(
    "--quick", is_flag=True, help="Small sizes for a functional check; the figures are not meaningful"
)
@click.option("--list", "list_only", is_flag=True, help="List the scenarios and exit")
@click.option("--json", "json_path", type=FILE, default=DEFAULT_JSON, show_default=True, help="Results file")
@click.option("--markdown", type=EXISTING_FILE, help="Markdown document whose results are replaced")
@click.option("--from", "source", type=EXISTING_FILE, help="Results file to show instead of measuring")
@click.option(
    "--profile",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for cProfile output of the controller, which slows it down",
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
    """Measure the controller on a real control plane (compared with a bare writer), and its informers.

    The first run builds the control plane, which takes some minutes and needs Go.
    """
    if list_only:
        for name, title in TITLES.items():
            click.echo(f"{name:17} {title}")
        return
    if source is not None:
        results = Results.read(source)
    else:
        results = _measure(BenchPlan.of(names, quick=quick, rounds=rounds), profile)
        results.write(json_path)
        click.echo(f"Wrote {json_path}", err=True)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH_COLUMNS)
    print_tables(all_tables(results.samples), console)
    if markdown is not None:
        document = with_results(markdown.read_text(encoding="utf-8"), results)
        markdown.write_text(document, encoding="utf-8")
        click.echo(f"Wrote {markdown}", err=True)


def _measure(plan: BenchPlan, profile: Path | None) -> Results:
    signal.signal(signal.SIGTERM, _interrupt)
    if profile is not None:
        profile.mkdir(parents=True, exist_ok=True)
    environment = gather(sys.argv[1:])
    samples = anyio.run(measure, plan, profile, _progress, backend_options={"use_uvloop": True})
    return Results(facts=environment, samples=samples)


def main() -> NoReturn:
    """Run the command line. Print an expected error as one line and exit with its status."""
    run_and_exit(
        cli,
        program="python -m bench",
        expected=(BenchError, ControlPlaneError, msgspec.MsgspecError, OSError),
    )


def _progress(line: str) -> None:
    click.echo(line, err=True)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Handle SIGTERM like Ctrl-C, so that all processes are stopped."""
    raise KeyboardInterrupt
