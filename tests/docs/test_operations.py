"""The page for operators says what the program serves and tells, name by name."""

from __future__ import annotations

import re

from controller.metrics.definitions import DEFINITIONS
from controller.observe.events import EVENT_KINDS
from tests.docs.metrics_table import PAGE, written_page

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_program() -> None:
    assert written_page(TEXT) == TEXT, "docs/operations.md is out of date: make docs"


def test_every_metric_and_every_event_has_one_row() -> None:
    """What is written twice or left out by the generator would pass the comparison."""
    rows = re.findall(r"^\| `(\w+)` \| (?:counter|gauge|histogram|Normal|Warning) \|", TEXT, re.MULTILINE)

    assert rows == [*EVENT_KINDS, *(definition.name for definition in DEFINITIONS)]
