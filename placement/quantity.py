"""Conversion between Kubernetes quantities and exact integers.

Placement compares and adds integers only. Parsing uses exact rational arithmetic and rounds away from zero,
as `Quantity.Value()` and `Quantity.MilliValue()` do. Placement therefore never underestimates a request.

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
_MAX_CHARACTERS: Final = 128

_CACHE_SIZE: Final = 4096
"""The Pods and nodes of a fleet repeat few distinct quantities. Typed, because `False` equals 0.0."""

_SUFFIXES: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SCALES: Final[dict[str, Fraction]] = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(_BINARY_SUFFIXES)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(_SUFFIXES, start=-3)},
}
_KILO: Final = 1000


@lru_cache(maxsize=_CACHE_SIZE, typed=True)
def parse_bytes(quantity: str | float) -> int:
    """Return the quantity in whole units (bytes, Pods), rounded away from zero.

    A JSON number is a quantity too, as for the API server.

    Raises:
        ValueError: the text is not a quantity.
    """
    return _round_away(_parse(quantity))


@lru_cache(maxsize=_CACHE_SIZE, typed=True)
def parse_millis(quantity: str | float) -> int:
    """Return the quantity in thousandths (of a CPU), rounded away from zero.

    Raises:
        ValueError: the text is not a quantity.
    """
    return _round_away(_parse(quantity) * _KILO)


def canonical_bytes(value: int) -> str:
    """Format a byte count as Kubernetes formats a `BinarySI` quantity: `64Gi`, `1536Mi`.

    Below 1024 Kubernetes uses decimal suffixes. This affects 1000 only (`1k`).
    """
    if abs(value) == _KILO:
        return f"{value // _KILO}k"
    power = 0
    while value and value % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        value //= 1024
        power += 1
    return f"{value}{_BINARY_SUFFIXES[power]}"


def gib_ceil(memory_bytes: int) -> int:
    """Return the bytes in GiB, rounded up: the size of a device shape."""
    return -(-memory_bytes // GIB)


def whole_gib(memory_bytes: int) -> str:
    """Format the bytes rounded up to whole GiB, always in that unit: `60Gi`, `1024Gi`."""
    return f"{gib_ceil(memory_bytes)}Gi"


def _parse(quantity: str | float) -> Fraction:
    text = quantity if isinstance(quantity, str) else str(quantity)
    # Check the length first: the quantity may come from a template that is not validated yet.
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if match is None:
        shown = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
        raise ValueError(f"{shown!r} is not a Kubernetes quantity (such as 60Gi, 1.5G or 500m)")
    number = Fraction(match["number"])
    if match["exponent"] is not None:
        return number * Fraction(10) ** int(match["exponent"])
    return number * _SCALES[match["suffix"] or ""]


def _round_away(value: Fraction) -> int:
    magnitude = min(-(-abs(value.numerator) // value.denominator), MAX_VALUE)
    return magnitude if value >= 0 else -magnitude
