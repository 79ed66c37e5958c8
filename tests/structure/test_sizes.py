"""Size limits of modules and functions. Split a module that exceeds them by concern."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ("controller", "informers", "ledger", "placement")
PACKAGES = (*SHIPPED, "simulation", "bench", "e2e", "tests", "examples")

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
FUNCTION_LINES_P90_MAX = 25


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def functions(module: Path) -> Iterator[tuple[str, int]]:
    """Yield each function with its name and its number of lines, without decorators."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            yield f"{module.relative_to(ROOT)}:{node.name}", last - node.lineno + 1


@pytest.mark.parametrize("package", PACKAGES)
def test_there_are_modules_to_measure(package: str) -> None:
    assert list((ROOT / package).rglob("*.py"))


def test_modules_have_at_most_400_lines() -> None:
    lines = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in modules()}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES_MAX} == {}


def test_functions_have_at_most_60_lines() -> None:
    lines = dict(found for path in modules() for found in functions(path))
    assert {name: count for name, count in lines.items() if count > FUNCTION_LINES_MAX} == {}


def test_most_functions_are_short() -> None:
    lines = sorted(count for path in modules() for _, count in functions(path))
    assert lines[len(lines) * 9 // 10] <= FUNCTION_LINES_P90_MAX
