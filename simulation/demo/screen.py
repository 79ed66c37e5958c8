"""Rendering: a live table on a terminal, plain snapshots elsewhere, with the same content."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from simulation.demo.cluster_view import ClaimRow, ClusterView, State, WaitingRow, Worker
from simulation.demo.summary import Ending, SummaryRow, conclusions, summary_rows, waits

PLAIN_WIDTH = 110
REFRESHES_PER_SECOND = 10
TITLE = "bold cyan"

_STYLES = {
    State.NEW: "dim",
    State.STARTING: "yellow",
    State.RUNNING: "green",
    State.WAITING: "yellow",
    State.DELETING: "dim",
    State.ENDED: "dim",
}


class Screen:
    """The output of the demo. As a context manager, it shows the live table while the block runs.

    `live` is whether standard output is a terminal that can redraw.
    """

    def __init__(self, console: Console, *, live: bool, devices: int, limit: int) -> None:
        self.console = console
        self.live = live
        self._devices = devices
        self._limit = limit
        self._live: Live | None = None

    def __repr__(self) -> str:
        return f"<Screen live={self.live}>"

    def __enter__(self) -> Self:
        if self.live:
            self._live = Live(console=self.console, refresh_per_second=REFRESHES_PER_SECOND)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @classmethod
    def on_standard_output(cls, *, devices: int, limit: int) -> Self:
        """Create a screen as wide as the terminal. Without a terminal its width is fixed."""
        console = Console(highlight=False)
        live = sys.stdout.isatty() and not console.is_dumb_terminal
        if not live:
            console = Console(highlight=False, width=PLAIN_WIDTH)
        return cls(console, live=live, devices=devices, limit=limit)

    def show(self, text: str, *, style: str = "") -> None:
        """Print text above the table. Lines are wrapped by the terminal only, so that paths can be copied."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    def update(self, view: ClusterView) -> None:
        """Redraw the live table, if there is one."""
        if self._live is not None:
            self._live.update(self._drawn(view))

    def snapshot(self, view: ClusterView) -> None:
        """Print the table, unless there is a live one."""
        if self._live is None:
            self.console.print(self._drawn(view))

    def summary(self, ending: Ending) -> None:
        """Print the summary."""
        self.show("Summary", style=TITLE)
        tables = summary_table(summary_rows(ending)), waiting_table("Waited", waits(ending))
        self.console.print(Group("", tables[0], "", tables[1], ""))
        for sentence in conclusions(ending, devices=self._devices, limit=self._limit):
            self.show(sentence)

    def _drawn(self, view: ClusterView) -> RenderableType:
        return draw(view, devices=self._devices, limit=self._limit)


def draw(view: ClusterView, *, devices: int, limit: int) -> RenderableType:
    """Render the claims with their seats, the waiting workers with their reasons, and the totals."""
    parts: list[RenderableType] = ["", claims_table(view, limit), ""]
    if view.waiting:
        parts += [waiting_table("Waiting", view.waiting), ""]
    return Group(*parts, totals(view, devices), "")


def claims_table(view: ClusterView, limit: int) -> Table:
    """Return a table with one row per allocated claim."""
    table = _table()
    table.add_column("Node", no_wrap=True)
    table.add_column("GPU")
    table.add_column("Claim", no_wrap=True)
    table.add_column("Seats", no_wrap=True)
    table.add_column("Workers")
    for row in view.claims:
        seats = "exclusive" if row.exclusive else f"{len(row.workers)} of {limit}"
        table.add_row(row.node, " ".join(row.devices), row.claim, seats, _workers_of(row, view))
    return table


def _workers_of(row: ClaimRow, view: ClusterView) -> Text:
    text = Text()
    for name in row.workers:
        worker = view.worker(name)
        text.append(", " if text else "")
        text.append(_label(name, worker), style=_STYLES[worker.state] if worker else "dim")
    return text


def _label(name: str, worker: Worker | None) -> str:
    if worker is None or worker.state is State.RUNNING:
        return name
    return f"{name} ({worker.state.value})"


def waiting_table(title: str, rows: Iterable[WaitingRow]) -> Table:
    """Return a table with one row per reason."""
    table = _table()
    table.add_column(title, max_width=24)
    table.add_column("Reason")
    for row in rows:
        table.add_row(Text(", ".join(row.workers), style="yellow"), Text(row.reason))
    return table


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)


def totals(view: ClusterView, devices: int) -> Text:
    """Return a line with the number of GPUs in use and of workers in each state."""
    counts = ", ".join(f"{len(names)} {state.value}" for state in State if (names := view.in_state(state)))
    return Text(
        f"{view.devices_in_use} of {devices} GPUs in use; workers: {counts or 'none yet'}", style="bold"
    )


def summary_table(rows: Iterable[SummaryRow]) -> Table:
    """Return a table with one row per worker."""
    table = _table()
    table.add_column("Worker", no_wrap=True)
    table.add_column("Outcome", no_wrap=True)
    table.add_column("Shares with")
    table.add_column("Time to first run", no_wrap=True)
    for row in rows:
        table.add_row(row.worker, row.outcome, row.shares_with, row.waited)
    return table
