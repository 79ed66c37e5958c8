"""docs/configuration.md lists every setting, reason code and phase of the program."""

from __future__ import annotations

import re

from controller.api.reasons import Phase, ReasonCode
from tests.docs.settings_table import PAGE, generated_page

TEXT = PAGE.read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<code>[A-Z]\w+)` \| (?P<phases>[^|]+) \| (?P<meaning>[^|]+) \|$", re.MULTILINE)


def test_the_generated_tables_are_up_to_date() -> None:
    assert generated_page(TEXT) == TEXT, "docs/configuration.md is out of date: make docs"


def test_every_reason_code_is_explained_once_and_in_the_order_of_the_code() -> None:
    assert [row["code"] for row in ROW.finditer(TEXT)] == [code.value for code in ReasonCode]


def test_every_phase_exists_in_the_status() -> None:
    phases = {phase.value for phase in Phase} | {"unchanged"}

    for row in ROW.finditer(TEXT):
        assert set(row["phases"].split(", ")) <= phases, row["code"]
