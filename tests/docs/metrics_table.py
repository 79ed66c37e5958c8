"""Generate the tables of metrics and events in docs/operations.md: `make docs`."""

from __future__ import annotations

from controller.metrics.definitions import GROUPS
from controller.observe.events import EVENT_KINDS
from tests.docs.settings_table import ROOT

PAGE = ROOT / "docs" / "operations.md"
METRICS = ("<!-- metrics: begin, written by `make docs` -->", "<!-- metrics: end -->")
EVENTS = ("<!-- events: begin, written by `make docs` -->", "<!-- events: end -->")


def metrics_section() -> str:
    """Return one table for each group of metrics."""
    lines: list[str] = []
    for group in GROUPS:
        lines += [f"#### {group.title}", "", "| metric | type | labels | meaning |", "|---|---|---|---|"]
        for definition in group.definitions:
            labels = ", ".join(f"`{label}`" for label in definition.labels)
            lines.append(f"| `{definition.name}` | {definition.type.value} | {labels} | {definition.help}. |")
        lines.append("")
    return "\n".join(lines)


def events_section() -> str:
    """Return a table with one row for each reason of an Event."""
    lines = ["| reason | type | action |", "|---|---|---|"]
    lines += [f"| `{reason}` | {kind.type.value} | `{kind.action}` |" for reason, kind in EVENT_KINDS.items()]
    return "\n".join([*lines, ""])


def generated_page(page: str) -> str:
    """Return the page with its generated sections replaced."""
    for (begin, end), section in ((METRICS, metrics_section()), (EVENTS, events_section())):
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        page = f"{head}{begin}\n\n{section}\n{end}{tail}"
    return page


if __name__ == "__main__":
    PAGE.write_text(generated_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
