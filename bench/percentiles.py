"""Percentiles and medians of measured values. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile: the smallest value with at least `percent` % at or below it.

    It is always a measured value. With fewer than 100 values, p99 is the largest.
    Raises `ValueError` without values, or for a percentage outside 0 to 100.
    """
    if not values:
        raise ValueError("no values: there is no percentile")
    if not 0 <= percent <= 100:
        raise ValueError(f"percentile {percent:g} is not between 0 and 100")
    rank = max(1, math.ceil(percent / 100 * len(values)))
    return sorted(values)[rank - 1]


@dataclass(frozen=True)
class Spread:
    """The distribution of values, in their own unit."""

    count: int
    p50: float
    p90: float
    p99: float
    largest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the distribution. Raises `ValueError` without values."""
        p50, p90, p99 = (percentile(values, percent) for percent in (50, 90, 99))
        return cls(len(values), p50, p90, p99, max(values))


def ratio_of_pairs(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios per round, so that a slow round cancels out.

    Rounds of only one side do not count. Raises `ValueError` if there is no pair.
    """
    pairs = list(zip(ours, theirs, strict=False))
    if not pairs:
        raise ValueError("no pairs: there is no ratio")
    return median(one / other for one, other in pairs)
