"""The progress of a batch: a bar on a terminal, else one line a minute, and each failure as it occurs.

Reports go to standard output and progress to standard error. So a batch that is interrupted, or whose output
goes to a file, has reported everything that it found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from simulation.run.report import Summary, replay_command, run_report
from simulation.run.simulate import RunOutcome

REPORTS_MAX = 5
"""The maximum number of failures shown in full."""

LINE_SECONDS = 60.0


class BatchProgress:
    """The progress of one batch, displayed inside `with`.

    `seeds_total` is `None` if it is unknown. `now` is a monotonic clock, in seconds.
    """

    def __init__(
        self, seeds_total: int | None, *, without: Collection[str], now: Callable[[], float]
    ) -> None:
        self.summary = Summary()
        self._seeds_total = seeds_total
        self._without = without
        self._now = now
        self._started = now()
        self._next_line = self._started + LINE_SECONDS
        console = Console(stderr=True)
        self._is_terminal = console.is_terminal
        # Reports may go to a file while the bar is on a terminal: do not redirect standard output.
        self._bar = Progress(
            TextColumn("seeds"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            disable=not self._is_terminal,
        )
        self._task = self._bar.add_task("seeds", total=seeds_total, state="")

    def __repr__(self) -> str:
        return f"<BatchProgress seeds={self.summary.seeds} failed={len(self.summary.failed)}>"

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()
        self.summary.real_seconds = self._now() - self._started

    def add(self, outcome: RunOutcome) -> None:
        """Add the outcome of a seed after both of its runs."""
        self.summary.add(outcome)
        if not outcome.passed:
            self._report(outcome)
        self._bar.update(self._task, advance=1, state=self._state())
        if not self._is_terminal and self._now() >= self._next_line:
            self._next_line = self._now() + LINE_SECONDS
            of_total = f" of {self._seeds_total}" if self._seeds_total is not None else ""
            click.echo(f"{self.summary.seeds}{of_total} seeds, {self._state()}", err=True)

    def _state(self) -> str:
        failed = len(self.summary.failed)
        return f"{failed} failed" if failed else "all passed"

    def _report(self, outcome: RunOutcome) -> None:
        self._bar.stop()
        if len(self.summary.failed) <= REPORTS_MAX:
            for line in run_report(outcome, without=self._without):
                click.echo(line)
            click.echo("")
        else:
            click.echo(f"seed {outcome.seed} FAILED as well: {replay_command(outcome.seed, self._without)}")
        self._bar.start()
