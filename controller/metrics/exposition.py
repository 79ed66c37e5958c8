"""The metrics endpoint of one process, and the conversion of numbers to Prometheus metrics.

Nothing is counted here. Each component keeps its `statistics()`, and a scrape converts these snapshots. Every
series therefore exists from the start, at zero, and none has a `_created` twin. Each process of a simulation
has its own registry. Values are keyed by label values, in the order of the definition's labels; a metric
without labels has the single key `()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import prometheus_client
from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from controller.metrics.definitions import MetricDefinition, MetricType
from informers.histogram import HistogramStatistics

METRICS_PATH = "/metrics"

FOREIGN_PREFIXES = ("process_", "python_gc_")
"""Metrics of the process and its garbage collector, named by the Prometheus client."""


LabelValues = tuple[str, ...]

Families = Callable[[], Iterable[Metric]]
"""Returns the current metrics of one source."""


class Metrics:
    """The registry of one process, with the metrics of the process itself. Other sources are added."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)

    def add(self, families: Families) -> None:
        """Add a source, which is called on the event loop for every scrape."""
        self.registry.register(_Source(families))

    def application(self) -> web.Application:
        """Return the application that serves the endpoint."""
        app = web.Application()
        app.add_routes([web.get(METRICS_PATH, self._scrape)])
        return app

    async def _scrape(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        response = web.Response(body=encode(self.registry), headers={"Content-Type": content_type})
        response.enable_compression()
        return response


class _Source(Collector):
    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


def numbers(definition: MetricDefinition, values: Mapping[LabelValues, float]) -> Metric:
    """Return a counter or gauge."""
    kind = CounterMetricFamily if definition.type is MetricType.COUNTER else GaugeMetricFamily
    # The client accepts a counter's name with or without `_total`, and always writes the suffix.
    family = kind(definition.name, definition.help, labels=definition.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def number(definition: MetricDefinition, value: float, *labels: str) -> Metric:
    """Return a counter or gauge with one series."""
    return numbers(definition, {labels: value})


def histograms(definition: MetricDefinition, values: Mapping[LabelValues, HistogramStatistics]) -> Metric:
    """Return a histogram."""
    family = HistogramMetricFamily(definition.name, definition.help, labels=definition.labels)
    for labels, value in values.items():
        bounds = [*(repr(float(bound)) for bound in value.bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, value.cumulative, strict=True)), value.sum)
    return family


def histogram(definition: MetricDefinition, value: HistogramStatistics, *labels: str) -> Metric:
    """Return a histogram with one series."""
    return histograms(definition, {labels: value})


def by(counts: Mapping[str, float]) -> dict[LabelValues, float]:
    """Return the values of a metric with one label, by label values."""
    return {(label,): count for label, count in counts.items()}
