"""Histograms as plain data, so that only the metrics endpoint imports a metrics library.

Counts are per bucket, not cumulative; an exporter adds them up on scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate

DURATION_BUCKETS_SECONDS = (1e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1e3)
"""From a tenth of a millisecond (a key processed at once) to the longest back-off."""


@dataclass(frozen=True)
class HistogramStatistics:
    """Observed values: `counts[i]` in (bounds[i-1], bounds[i]], the last count above all bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        """Number of observed values."""
        return sum(self.counts)

    @property
    def cumulative(self) -> tuple[int, ...]:
        """Number of values up to each bound and in total: the `le` buckets of Prometheus."""
        return tuple(accumulate(self.counts))


def merged(one: HistogramStatistics, other: HistogramStatistics) -> HistogramStatistics:
    """Return the sum of two histograms. Raises `ValueError` if their bounds differ."""
    if one.bounds != other.bounds:
        raise ValueError(f"histograms of different bounds: {one.bounds} and {other.bounds}")
    counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
    return HistogramStatistics(one.bounds, counts, one.sum + other.sum)


@dataclass(slots=True)
class Histogram:
    """Counts of values, durations in seconds by default. `len(_counts) == len(bounds) + 1`."""

    bounds: tuple[float, ...] = DURATION_BUCKETS_SECONDS
    _counts: list[int] = field(init=False)
    _sum: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self._sum += value

    def statistics(self) -> HistogramStatistics:
        """Return the counts so far."""
        return HistogramStatistics(self.bounds, tuple(self._counts), self._sum)
