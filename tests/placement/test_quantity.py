"""Quantities are exact, round away from zero, and format as in Kubernetes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.quantity import MAX_VALUE, canonical_bytes, parse_bytes, parse_millis, whole_gib
from placement.types import GIB


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("60Gi", 60 * GIB),
        ("1.5Gi", 3 * GIB // 2),
        ("1k", 1000),
        ("1Ki", 1024),
        ("2M", 2_000_000),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ei", 1 << 60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", 2),
        ("+5", 5),
        ("-1", -1),
        ("-0.5", -1),
        (".5Ki", 512),
        ("5.", 5),
        ("1m", 1),
        ("1n", 1),
        ("0.1", 1),
        ("1000m", 1),
        ("1001m", 2),
        ("100E", MAX_VALUE),
        ("-1e99", -MAX_VALUE),
        (7, 7),
        (0.5, 1),
        (1e22, MAX_VALUE),
    ],
)
def test_whole_units(text: str | float, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    ("text", "millis"),
    [("500m", 500), ("2", 2000), ("0.1", 100), ("100u", 1), ("1n", 1), ("1.0005", 1001), (0.25, 250)],
)
def test_thousandths(text: str | float, millis: int) -> None:
    assert parse_millis(text) == millis


NOT_QUANTITIES = (
    *("", " 1", "1 ", "1\n", "Gi", ".", "1gi", "1K", "1KI", "1 Gi", "1e", "0x10", "1_000", "\u0661", "--1"),
    *("nan", True, False, float("inf"), "9" * 200, "1e99999"),
)


@pytest.mark.parametrize("text", NOT_QUANTITIES)
def test_other_text_raises_the_same_error(text: str | float) -> None:
    parse_bytes(0.0)  # equals False, and its result is cached
    parse_bytes(1.0)
    with pytest.raises(ValueError, match="is not a Kubernetes quantity") as caught:
        parse_bytes(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (512, "512"),
        (1000, "1k"),
        (-1000, "-1k"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1025, "1025"),
        (2000, "2000"),
        (64 * GIB, "64Gi"),
        (3 * GIB // 2, "1536Mi"),
        (1024 * GIB, "1Ti"),
        (1 << 60, "1Ei"),
    ],
)
def test_canonical_form(value: int, text: str) -> None:
    assert canonical_bytes(value) == text


@given(st.integers(-MAX_VALUE, MAX_VALUE) | st.integers(0, 1 << 40).map(lambda value: value << 20))
def test_the_canonical_form_parses_back(value: int) -> None:
    assert parse_bytes(canonical_bytes(value)) == value


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1Gi"), (60 * GIB, "60Gi"), (60 * GIB + 1, "61Gi"), (2048 * GIB, "2048Gi")]
)
def test_whole_gib_round_up(value: int, text: str) -> None:
    assert whole_gib(value) == text
