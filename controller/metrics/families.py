"""From a definition and numbers to what Prometheus's client writes out.

Numbers are given by label values, in the order of the definition's labels; a metric without labels has one
entry, `()`. A series that exists is given with 0 from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from controller.metrics.definitions import Definition, MetricType
from informers.histogram import HistogramStatistics

LabelValues = tuple[str, ...]

Families = Callable[[], Iterable[Metric]]
"""Gives the current metrics of one source."""


def numbers(definition: Definition, values: Mapping[LabelValues, float]) -> Metric:
    """A counter or a gauge."""
    kind = CounterMetricFamily if definition.type is MetricType.COUNTER else GaugeMetricFamily
    # The client takes the name of a counter with or without `_total`, which it writes.
    family = kind(definition.name, definition.help, labels=definition.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def number(definition: Definition, value: float, *labels: str) -> Metric:
    """A counter or a gauge of one series."""
    return numbers(definition, {labels: value})


def histograms(definition: Definition, values: Mapping[LabelValues, HistogramStatistics]) -> Metric:
    """A histogram."""
    family = HistogramMetricFamily(definition.name, definition.help, labels=definition.labels)
    for labels, value in values.items():
        bounds = [*(repr(float(bound)) for bound in value.bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, value.cumulative, strict=True)), value.sum)
    return family


def histogram(definition: Definition, value: HistogramStatistics, *labels: str) -> Metric:
    """A histogram of one series."""
    return histograms(definition, {labels: value})


def by(counts: Mapping[str, float]) -> dict[LabelValues, float]:
    """The numbers of a metric with one label."""
    return {(label,): count for label, count in counts.items()}
