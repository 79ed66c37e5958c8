"""Counts of HTTP requests as plain data, in the terms of client-go's `rest_client_*` metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from informers.histogram import Histogram, HistogramStatistics

REQUEST_BUCKETS_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


@dataclass(frozen=True)
class RequestStatistics:
    """Counts since the start. A request without a response has the code `<error>`."""

    requests_total: Mapping[tuple[str, str], int]
    """By HTTP method and code; each attempt counts."""
    retries_total: Mapping[tuple[str, str], int]
    """Repeated requests, by method and the code that caused the retry."""
    seconds: Mapping[str, HistogramStatistics]
    """From sending to the response headers, by method."""


class RequestCounts:
    """The counts of one client."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str]] = Counter()
        self._retries: Counter[tuple[str, str]] = Counter()
        self._seconds: dict[str, Histogram] = {}

    def __repr__(self) -> str:
        return f"<RequestCounts requests={self._requests.total()} retries={self._retries.total()}>"

    def observe(self, method: str, code: str, seconds: float) -> None:
        """Count a request that was answered or failed."""
        self._requests[method, code] += 1
        histogram = self._seconds.get(method)
        if histogram is None:
            histogram = self._seconds[method] = Histogram(REQUEST_BUCKETS_SECONDS)
        histogram.observe(seconds)

    def observe_retry(self, method: str, code: str) -> None:
        """Count a retry of a request that was answered with `code`."""
        self._retries[method, code] += 1

    def statistics(self) -> RequestStatistics:
        """Return the counts so far."""
        return RequestStatistics(
            requests_total=dict(self._requests),
            retries_total=dict(self._retries),
            seconds={method: histogram.statistics() for method, histogram in self._seconds.items()},
        )
