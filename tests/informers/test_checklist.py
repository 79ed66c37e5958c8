"""Every behaviour of the checklist has a line in the library's page, with tests that exist or a reason."""

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

# Tests of other parts are named after what they protect there.
CARRY_THEIR_ID = ("tests/informers/", "tests/transport/")

_ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")

ROWS = _ROW.findall(PAGE.read_text(encoding="utf-8"))
LINES = {identifier: cell for identifier, _, cell in ROWS}


@cache
def functions_of(file: str) -> frozenset[str]:
    """The names of the test functions of one file."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    functions = (
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def named(identifier: str) -> list[tuple[str, str]]:
    return _TEST.findall(LINES.get(identifier, ""))


def test_every_behaviour_has_exactly_one_line_and_they_are_in_order() -> None:
    assert [identifier for identifier, _, _ in ROWS] == IDS


@pytest.mark.parametrize("identifier", IDS)
def test_a_line_names_tests_or_says_why_not(identifier: str) -> None:
    assert named(identifier) or identifier in LEFT_OUT
    if identifier in LEFT_OUT:
        assert LINES[identifier].startswith("Left out")


@pytest.mark.parametrize("identifier", IDS)
def test_the_tests_that_are_named_exist(identifier: str) -> None:
    missing = [f"{file}::{test}" for file, test in named(identifier) if test not in functions_of(file)]
    assert missing == []


@pytest.mark.parametrize("identifier", IDS)
def test_the_tests_that_are_named_carry_the_id(identifier: str) -> None:
    anonymous = [
        test
        for file, test in named(identifier)
        if file.startswith(CARRY_THEIR_ID) and identifier.lower() not in test.lower().split("_")
    ]
    assert anonymous == []
