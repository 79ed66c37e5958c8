"""Every checklist behavior has a row in the documentation, with existing tests or a reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "informers.md"

COUNTS = {"L": 17, "W": 20, "S": 14, "Q": 20, "R": 12, "E": 19, "A": 7, "M": 2, "X": 3}
IDS = [f"{letter}{number}" for letter, count in COUNTS.items() for number in range(1, count + 1)]
LEFT_OUT = {"L14", "L15", "S11"}

# Tests elsewhere do not carry checklist ids.
WITH_ID = ("tests/informers/",)

_ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")

ROWS = _ROW.findall(PAGE.read_text(encoding="utf-8"))
CELLS = {identifier: cell for identifier, _, cell in ROWS}


@cache
def functions_of(file: str) -> frozenset[str]:
    """Return the names of the test functions of one file."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    functions = (
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def cited_tests(identifier: str) -> list[tuple[str, str]]:
    return _TEST.findall(CELLS.get(identifier, ""))


def test_every_behavior_has_exactly_one_row_in_order() -> None:
    assert [identifier for identifier, _, _ in ROWS] == IDS


@pytest.mark.parametrize("identifier", IDS)
def test_a_row_names_tests_or_a_reason(identifier: str) -> None:
    assert cited_tests(identifier) or identifier in LEFT_OUT
    if identifier in LEFT_OUT:
        assert CELLS[identifier].startswith("Left out")


@pytest.mark.parametrize("identifier", IDS)
def test_the_named_tests_exist(identifier: str) -> None:
    missing = [f"{file}::{test}" for file, test in cited_tests(identifier) if test not in functions_of(file)]
    assert missing == []


@pytest.mark.parametrize("identifier", IDS)
def test_the_named_tests_carry_the_id(identifier: str) -> None:
    without_id = [
        test
        for file, test in cited_tests(identifier)
        if file.startswith(WITH_ID) and identifier.lower() not in test.lower().split("_")
    ]
    assert without_id == []
