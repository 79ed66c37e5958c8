"""A table of text and its renderers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as RichTable

MET, MISSED = "yes", "no"


@dataclass(frozen=True)
class Table:
    """A table of formatted cells. Columns after the first `text_columns` align right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1

    def __post_init__(self) -> None:
        """Raise `ValueError` for a row with the wrong number of cells."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: a row of {len(row)} cells under {len(self.columns)} columns")


def print_tables(tables: Sequence[Table], console: Console) -> None:
    """Print tables to a terminal."""
    for table in tables:
        console.print()
        console.print(_rich(table))


def _rich(table: Table) -> RichTable:
    rich = RichTable(title=table.title, title_justify="left", title_style="bold")
    for number, column in enumerate(table.columns):
        rich.add_column(column, justify="left" if number < table.text_columns else "right")
    for row in table.rows:
        rich.add_row(*row, style="red" if row[-1] == MISSED else None)
    return rich


def markdown(tables: Sequence[Table]) -> str:
    """Return the tables as GitHub Markdown, each with its title."""
    return "\n".join(_markdown(table) for table in tables)


def _markdown(table: Table) -> str:
    rules = ["---" if number < table.text_columns else "--:" for number in range(len(table.columns))]
    lines = [_line(table.columns), _line(rules), *(_line(row) for row in table.rows)]
    return "\n".join([f"### {table.title}", "", *lines, ""])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
