"""Kubernetes quantities as exact integers, and back.

Placement compares and adds integers only (bytes, thousandths of a CPU); this is the one place that knows the
text form. Parsing is exact rational arithmetic and rounds away from zero, as `Quantity.Value()` and
`Quantity.MilliValue()` do, so that a request is never taken for less than the scheduler takes it for.

Source: `k8s.io/apimachinery/pkg/api/resource`, "Quantity" of the Kubernetes API reference.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from placement.types import GIB

MAX_VALUE: Final = (1 << 63) - 1
"""Kubernetes caps every quantity at the largest signed 64-bit number."""

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,4})|(?P<suffix>[numkMGTPE]|[KMGTPE]i))?",
    re.ASCII,
)
_MAX_TEXT: Final = 128

_REMEMBERED: Final = 4096
"""A fleet's Pods and nodes write few different quantities, again and again."""

_SCALES: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    **{f"{letter}i": Fraction(1 << 10 * power) for power, letter in enumerate("KMGTPE", start=1)},
}

_KILO: Final = 1000
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@lru_cache(maxsize=_REMEMBERED)
def parse_bytes(quantity: str | float) -> int:
    """The quantity in whole units (bytes, Pods), rounded away from zero.

    A bare JSON number is a quantity too, as it is for the API server.

    Raises:
        ValueError: the text is not a quantity.
    """
    return _round_away(_parse(quantity))


@lru_cache(maxsize=_REMEMBERED)
def parse_millis(quantity: str | float) -> int:
    """The quantity in thousandths (of a CPU), rounded away from zero.

    Raises:
        ValueError: the text is not a quantity.
    """
    return _round_away(_parse(quantity) * _KILO)


def canonical_bytes(value: int) -> str:
    """A byte count as Kubernetes prints a `BinarySI` quantity: `64Gi`, `1536Mi`.

    Below 1024 Kubernetes switches to decimal suffixes, which only shows for 1000 (`1k`).
    """
    if abs(value) == _KILO:
        return f"{value // _KILO}k"
    power = 0
    while value and value % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        value //= 1024
        power += 1
    return f"{value}{_BINARY_SUFFIXES[power]}"


def gib_ceil(memory_bytes: int) -> int:
    """The number of whole GiB that hold the bytes: the size of a device's shape."""
    return -(-memory_bytes // GIB)


def whole_gib(memory_bytes: int) -> str:
    """The bytes rounded up to whole GiB, always in that unit: `60Gi`, `1024Gi`."""
    return f"{gib_ceil(memory_bytes)}Gi"


def _parse(quantity: str | float) -> Fraction:
    text = quantity if isinstance(quantity, str) else str(quantity)
    # The length is bounded before anything else: a quantity may come from a template that nobody has checked.
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        shown = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
        raise ValueError(f"{shown!r} is not a Kubernetes quantity (such as 60Gi, 1.5G or 500m)")
    number = Fraction(match["number"])
    if match["exponent"] is not None:
        return number * Fraction(10) ** int(match["exponent"])
    return number * _SCALES[match["suffix"] or ""]


def _round_away(value: Fraction) -> int:
    magnitude = min(-(-abs(value.numerator) // value.denominator), MAX_VALUE)
    return magnitude if value >= 0 else -magnitude
