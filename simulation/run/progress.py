"""How far a batch is: a bar on a terminal, a line a minute elsewhere, and each failure once it is known.

Reports go to the standard output, progress to the standard error: a batch of hours that is interrupted, or
whose output goes to a file, has told by then what it found.
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
"""So many failures are shown in full."""

LINE_SECONDS = 60.0


class BatchProgress:
    """Takes in the outcomes of one batch. Enter it for the time of the runs.

    `seeds_total` is `None` where it is not known before. `now` is a monotonic clock, in seconds.
    """

    def __init__(
        self, seeds_total: int | None, *, without: Collection[str], now: Callable[[], float]
    ) -> None:
        self.summary = Summary()
        self._seeds_total = seeds_total
        self._without = without
        self._now = now
        self._began = now()
        self._next_line = self._began + LINE_SECONDS
        console = Console(stderr=True)
        self._is_shown = console.is_terminal
        # Reports may go to a file while the bar is on a terminal: the bar leaves the standard output alone.
        self._bar = Progress(
            TextColumn("seeds"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            disable=not self._is_shown,
        )
        self._task = self._bar.add_task("seeds", total=seeds_total, state="")

    def __repr__(self) -> str:
        return f"<BatchProgress seeds={self.summary.seeds} failed={len(self.summary.failed)}>"

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()
        self.summary.real_seconds = self._now() - self._began

    def done(self, outcome: RunOutcome) -> None:
        """Both runs of a seed are over."""
        self.summary.add(outcome)
        if not outcome.passed:
            self._tell(outcome)
        self._bar.update(self._task, advance=1, state=self._state())
        if not self._is_shown and self._now() >= self._next_line:
            self._next_line = self._now() + LINE_SECONDS
            of_all = f" of {self._seeds_total}" if self._seeds_total is not None else ""
            click.echo(f"{self.summary.seeds}{of_all} seeds, {self._state()}", err=True)

    def _state(self) -> str:
        failed = len(self.summary.failed)
        return f"{failed} failed" if failed else "all passed"

    def _tell(self, outcome: RunOutcome) -> None:
        self._bar.stop()
        if len(self.summary.failed) <= REPORTS_MAX:
            for line in run_report(outcome, without=self._without):
                click.echo(line)
            click.echo("")
        else:
            click.echo(f"seed {outcome.seed} FAILED as well: {replay_command(outcome.seed, self._without)}")
        self._bar.start()
