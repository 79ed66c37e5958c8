"""Citations of the contract name headings that exist, and every invariant is cited by a check."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.settings_table import ROOT

CONTRACT = ROOT / "docs" / "contract.md"
HEADING = re.compile(r"^#+ §(\d+(?:\.\d+)?) ", re.MULTILINE)
CITATION = re.compile(r"§(\d+(?:\.\d+)?)")
OTHER_FORMS = re.compile(
    r"\bsections? \d|\bsteps? \d+ of the contract|\"\"\"steps? \d|\binvariants? \d"
    r"|\bcontract,? \(?(?:section|step|invariant)|\bcontract \d",
    re.IGNORECASE,
)
SUFFIXES = {".py", ".md", ".yaml", ".toml", ".sh"}
FOLDERS = (
    *("bench", "controller", "docs", "e2e", "examples", "informers", "ledger", "manifests", "placement"),
    *("simulation", "tests"),
)
INVARIANTS = [f"8.{number}" for number in range(1, 15)]


@cache
def pages() -> dict[str, str]:
    """The text of every source and page, by its path in the repository."""
    files = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in SUFFIXES and path.is_file() and path != Path(__file__)
    ]
    files.append(ROOT / "README.md")
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}


def occurrences(pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """Return each match in the repository, with `path:line`."""
    for path, text in pages().items():
        for match in pattern.finditer(text):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}", match


def headings() -> list[str]:
    return HEADING.findall(CONTRACT.read_text(encoding="utf-8"))


def test_headings_are_numbered_in_order_without_gaps() -> None:
    expected: list[str] = []
    for chapter, subsections in enumerate((0, 4, 0, 0, 14, 0, 2, 14), start=1):
        expected += [str(chapter), *(f"{chapter}.{number}" for number in range(1, subsections + 1))]

    assert headings() == expected


def test_every_citation_is_a_heading() -> None:
    known = set(headings())

    assert [f"{place}: §{match[1]}" for place, match in occurrences(CITATION) if match[1] not in known] == []


def test_the_contract_is_cited_in_no_other_form() -> None:
    assert [f"{place}: {match[0]}" for place, match in occurrences(OTHER_FORMS)] == []


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_every_invariant_is_cited_by_a_check(invariant: str) -> None:
    checks = [text for path, text in pages().items() if path.startswith("simulation/checks/")]

    assert any(re.search(rf"contract §{re.escape(invariant)}(?!\d)", text, re.IGNORECASE) for text in checks)
