"""Tests of durations in Go's syntax."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config.durations import format_duration, parse_duration

NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
WHOLE_PARTS = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from(sorted(NANOSECONDS))), min_size=1, max_size=6
)


@given(st.integers(0, 2**51))
def test_a_formatted_duration_parses_to_the_same_nanosecond(nanoseconds: int) -> None:
    seconds = nanoseconds / 10**9
    assert parse_duration(format_duration(seconds)) == seconds
    assert parse_duration(format_duration(-seconds)) == -seconds


@given(WHOLE_PARTS)
def test_parts_are_added_in_any_order_and_number(parts: list[tuple[int, str]]) -> None:
    expected = sum(number * NANOSECONDS[unit] for number, unit in parts)
    assert parse_duration("".join(f"{number}{unit}" for number, unit in parts)) == expected / 10**9


@given(st.text(alphabet="0123456789.+-nuµmshdw eE_", max_size=12))
def test_any_text_is_parsed_or_raises_value_error(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        return
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0), ("-0", 0.0), ("0s", 0.0), ("10s", 10.0), ("15m", 900.0), ("1h30m", 5400.0),
        ("300ms", 0.3),
        ("1.5h", 5400.0), (".5s", 0.5), ("1.s", 1.0), ("1µs", 1e-6), ("1μs", 1e-6), ("-1m", -60.0),
        ("+1m", 60.0),
        ("2562047h47m16.854775807s", 9223372036.854775807), ("0.1ns", 0.0),
    ],
)  # fmt: skip
def test_accepted(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "5", "1d", "1w", "1y", "s", ".s", "1", "-", "+", "1h ", " 1h", "1 h", "1h-30m", "1e3s",
        "1_0s", "10S",
        "0x1s", "1h30", "00", "2562047h47m16.854775808s", "٣s", "1s\n", "NaN", "inf", f"{'1' * 200}s",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|is too long"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"), (10.0, "10s"), (90.0, "1m30s"), (900.0, "15m"), (5400.0, "1h30m"), (3600.5, "1h0.5s"),
        (0.3, "300ms"), (0.0015, "1.5ms"), (1e-6, "1us"), (1e-9, "1ns"), (-60.0, "-1m"), (0.1 + 0.2, "300ms"),
    ],
)  # fmt: skip
def test_formatting(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
