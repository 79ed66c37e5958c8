"""The tables of metrics and events in docs/operations.md match the program."""

from __future__ import annotations

import re

from controller.metrics.definitions import DEFINITIONS
from controller.observe.events import EVENT_KINDS
from tests.docs.metrics_table import PAGE, generated_page

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_generated_tables_are_up_to_date() -> None:
    assert generated_page(TEXT) == TEXT, "docs/operations.md is out of date: make docs"


def test_every_metric_and_every_event_has_one_row() -> None:
    """The comparison alone would not catch a row that the generator omits or repeats."""
    rows = re.findall(r"^\| `(\w+)` \| (?:counter|gauge|histogram|Normal|Warning) \|", TEXT, re.MULTILINE)

    assert rows == [*EVENT_KINDS, *(definition.name for definition in DEFINITIONS)]
