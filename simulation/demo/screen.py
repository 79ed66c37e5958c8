"""Drawing: a live table on a terminal, plain snapshots elsewhere; both show the same."""

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
    State.LEAVING: "dim",
    State.ENDED: "dim",
}


class Screen:
    """Where the story is shown, entered around the part that has a table to show.

    `live` says whether somebody watches, on a terminal that can redraw.
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
        """As wide as the terminal; of a fixed width where there is none, whatever CI forces colours for."""
        console = Console(highlight=False)
        live = sys.stdout.isatty() and not console.is_dumb_terminal
        if not live:
            console = Console(highlight=False, width=PLAIN_WIDTH)
        return cls(console, live=live, devices=devices, limit=limit)

    def say(self, text: str, *, style: str = "") -> None:
        """Text of the story, above the table. Only the terminal breaks its lines: paths can be copied."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    def update(self, view: ClusterView) -> None:
        """Redraw the table, if there is a live one."""
        if self._live is not None:
            self._live.update(self._drawn(view))

    def snapshot(self, view: ClusterView) -> None:
        """Print the table once, if there is no live one."""
        if self._live is None:
            self.console.print(self._drawn(view))

    def summary(self, ending: Ending) -> None:
        """Print the end of the story."""
        self.say("What happened", style=TITLE)
        tables = summary_table(summary_rows(ending)), waiting_table("Waited", waits(ending))
        self.console.print(Group("", tables[0], "", tables[1], ""))
        for sentence in conclusions(ending, devices=self._devices, limit=self._limit):
            self.say(sentence)

    def _drawn(self, view: ClusterView) -> RenderableType:
        return draw(view, devices=self._devices, limit=self._limit)


def draw(view: ClusterView, *, devices: int, limit: int) -> RenderableType:
    """The claims with their seats, those who wait with their reasons, and a line of totals."""
    parts: list[RenderableType] = ["", claims_table(view, limit), ""]
    if view.waiting:
        parts += [waiting_table("Waiting", view.waiting), ""]
    return Group(*parts, totals(view, devices), "")


def claims_table(view: ClusterView, limit: int) -> Table:
    """One row for each allocated claim."""
    table = _table()
    table.add_column("Node", no_wrap=True)
    table.add_column("GPU")
    table.add_column("Claim", no_wrap=True)
    table.add_column("Seats", no_wrap=True)
    table.add_column("Who sits there")
    for row in view.claims:
        seats = "exclusive" if row.exclusive else f"{len(row.workers)} of {limit}"
        table.add_row(row.node, " ".join(row.devices), row.claim, seats, _seated(row, view))
    return table


def _seated(row: ClaimRow, view: ClusterView) -> Text:
    text = Text()
    for name in row.workers:
        worker = view.worker(name)
        text.append(", " if text else "")
        text.append(_described(name, worker), style=_STYLES[worker.state] if worker else "dim")
    return text


def _described(name: str, worker: Worker | None) -> str:
    if worker is None or worker.state is State.RUNNING:
        return name
    return f"{name} ({worker.state.value})"


def waiting_table(title: str, rows: Iterable[WaitingRow]) -> Table:
    """One row for each reason."""
    table = _table()
    table.add_column(title, max_width=24)
    table.add_column("Reason")
    for row in rows:
        table.add_row(Text(", ".join(row.workers), style="yellow"), Text(row.reason))
    return table


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)


def totals(view: ClusterView, devices: int) -> Text:
    """How much is in use and how many are where."""
    counts = ", ".join(f"{len(names)} {state.value}" for state in State if (names := view.in_state(state)))
    return Text(
        f"{view.devices_in_use} of {devices} GPUs in use; workers: {counts or 'none yet'}", style="bold"
    )


def summary_table(rows: Iterable[SummaryRow]) -> Table:
    """One row for each worker."""
    table = _table()
    table.add_column("Worker", no_wrap=True)
    table.add_column("Outcome", no_wrap=True)
    table.add_column("With")
    table.add_column("Until it first ran", no_wrap=True)
    for row in rows:
        table.add_row(row.worker, row.outcome, row.company, row.waited)
    return table
