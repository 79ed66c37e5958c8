"""Scrapes of the metrics endpoint, without HTTP."""

from __future__ import annotations

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from controller.main import controller_metrics
from controller.metrics.definitions import MetricDefinition
from controller.metrics.exposition import Metrics
from simulation.cluster.controller_process import SimulatedProcess

Labels = frozenset[tuple[str, str]]


class Scrape:
    """The series of one scrape, by name and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = list(text_string_to_metric_families(text))
        self._series: dict[tuple[str, Labels], float] = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def value(self, definition: MetricDefinition, **labels: str) -> float:
        """Return the value of a counter or gauge. Raises `KeyError` if the series does not exist."""
        return self._series[definition.name, frozenset(labels.items())]

    def values(self, definition: MetricDefinition) -> dict[str, float]:
        """Return the nonzero values of a metric with one label, by label value."""
        found = (
            (dict(labels), value) for (name, labels), value in self._series.items() if name == definition.name
        )
        return {labels[definition.labels[0]]: value for labels, value in found if value}

    def labels(self, definition: MetricDefinition) -> list[dict[str, str]]:
        """Return the labels of every series of a counter or gauge."""
        return [dict(labels) for name, labels in self._series if name == definition.name]

    def observations(self, definition: MetricDefinition, **labels: str) -> tuple[int, float]:
        """Return the number of observations of a histogram, and their sum."""
        key = frozenset(labels.items())
        count = self._series[f"{definition.name}_count", key]
        return int(count), self._series[f"{definition.name}_sum", key]


def family_name(family: Metric) -> str:
    """Return the name of a family as a query uses it."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def scrape(metrics: Metrics) -> Scrape:
    """Scrape a registry."""
    return Scrape(generate_latest(metrics.registry).decode())


def scrape_process(process: SimulatedProcess) -> Scrape:
    """Scrape a process of a simulated cluster."""
    return scrape(controller_metrics(process.controller, process.leadership))
