"""Durations as people write them in Kubernetes: Go's syntax, read exactly.

One grammar for every flag and variable: a sequence of decimal numbers, each with a unit (`ns us µs ms s m
h`), such as `10s` or `1h30m`; a sign is allowed, a bare `0` too. `5`, `1d` and the empty text are refused.
Arithmetic is in whole nanoseconds, so nothing is lost before the one conversion to `float` seconds, the form
in which the event loop takes times.
"""

from __future__ import annotations

import re
from fractions import Fraction

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign, U+00B5
    "μs": 1_000,  # Greek small mu, U+03BC, which Go accepts as well
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(rf"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<unit>{'|'.join(_NANOSECONDS)})")
_MAX_NANOSECONDS = 2**63 - 1
"""Go keeps a duration in 64 bits: about 292 years."""
_MAX_TEXT = 100
_SECOND = _NANOSECONDS["s"]


def parse_duration(text: str) -> float:
    """Read a Go-style duration, in seconds.

    Raises:
        ValueError: `text` does not follow the grammar, or exceeds what Go can hold.
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
    """Write a duration, to the nanosecond, as `parse_duration` reads it: `15m`, `1h30m`, `1.5ms`."""
    nanoseconds = round(abs(seconds) * _SECOND)
    if nanoseconds == 0:
        return "0s"
    sign = "-" if seconds < 0 else ""
    if nanoseconds < _SECOND:
        unit = (
            "ms" if nanoseconds >= _NANOSECONDS["ms"] else "us" if nanoseconds >= _NANOSECONDS["us"] else "ns"
        )
        return f"{sign}{_decimal(nanoseconds, _NANOSECONDS[unit])}{unit}"
    hours, rest = divmod(nanoseconds, _NANOSECONDS["h"])
    minutes, rest = divmod(rest, _NANOSECONDS["m"])
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if rest:
        parts.append(f"{_decimal(rest, _SECOND)}s")
    return sign + "".join(parts)


def _decimal(nanoseconds: int, unit_nanoseconds: int) -> str:
    whole, fraction = divmod(nanoseconds, unit_nanoseconds)
    digits = len(str(unit_nanoseconds)) - 1
    return f"{whole}.{fraction:0{digits}d}".rstrip("0").rstrip(".") if digits else str(whole)
