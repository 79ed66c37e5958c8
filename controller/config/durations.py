"""Durations in Go's syntax, as in Kubernetes.

A duration is a sequence of decimal numbers, each with a unit (`ns us µs ms s m h`), such as `10s` or `1h30m`.
A sign and a bare `0` are allowed; `5`, `1d` and empty text are not. Arithmetic uses whole nanoseconds. Only
the final conversion to `float` seconds, the unit of the event loop, can round.
"""

from __future__ import annotations

import re
from fractions import Fraction

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign, U+00B5
    "μs": 1_000,  # Greek small mu, U+03BC; Go accepts both
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(rf"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<unit>{'|'.join(_NANOSECONDS)})")
_MAX_NANOSECONDS = 2**63 - 1
"""The maximum of Go's 64-bit duration: about 292 years."""
_MAX_TEXT = 100
_SECOND = _NANOSECONDS["s"]


def parse_duration(text: str) -> float:
    """Parse a Go duration and return it in seconds.

    Raises:
        ValueError: `text` is not a duration, or exceeds the maximum of Go.
    """
    unsigned = text[1:] if text[:1] in {"+", "-"} else text
    if unsigned == "0":
        return 0.0
    parts = list(_PART.finditer(unsigned)) if len(unsigned) <= _MAX_TEXT else []
    if not parts or "".join(part.group() for part in parts) != unsigned:
        raise ValueError(f"{text!r} is not a duration")
    nanoseconds = sum(int(Fraction(part["number"]) * _NANOSECONDS[part["unit"]]) for part in parts)
    if nanoseconds > _MAX_NANOSECONDS:
        raise ValueError(f"{text!r} is too long")
    return (-nanoseconds if text[0] == "-" else nanoseconds) / _SECOND


def format_duration(seconds: float) -> str:
    """Format a duration, to the nanosecond, for `parse_duration`: `15m`, `1h30m`, `1.5ms`."""
    rest = round(abs(seconds) * _SECOND)
    sign = "-" if rest and seconds < 0 else ""
    if 0 < rest < _SECOND:
        unit = next(unit for unit in ("ms", "us", "ns") if rest >= _NANOSECONDS[unit])
        return f"{sign}{_decimal(rest, _NANOSECONDS[unit])}{unit}"
    parts = ""
    for unit in ("h", "m"):
        whole, rest = divmod(rest, _NANOSECONDS[unit])
        parts += f"{whole}{unit}" if whole else ""
    return sign + parts + (f"{_decimal(rest, _SECOND)}s" if rest or not parts else "")


def _decimal(nanoseconds: int, unit_nanoseconds: int) -> str:
    whole, fraction = divmod(nanoseconds, unit_nanoseconds)
    digits = len(str(unit_nanoseconds)) - 1
    return f"{whole}.{fraction:0{digits}d}".rstrip("0").rstrip(".") if digits else str(whole)
