"""Reading what a scrape of the metrics endpoint would give."""

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
        """A counter's or gauge's number. Raises `KeyError` where there is no such series."""
        return self._series[definition.name, frozenset(labels.items())]

    def values(self, definition: MetricDefinition) -> dict[str, float]:
        """The numbers that are not 0 of a metric with one label, by its value."""
        found = (
            (dict(labels), value) for (name, labels), value in self._series.items() if name == definition.name
        )
        return {labels[definition.labels[0]]: value for labels, value in found if value}

    def labels(self, definition: MetricDefinition) -> list[dict[str, str]]:
        """The labels of every series of a counter or gauge."""
        return [dict(labels) for name, labels in self._series if name == definition.name]

    def observations(self, definition: MetricDefinition, **labels: str) -> tuple[int, float]:
        """How many values a histogram has taken in, and their sum."""
        key = frozenset(labels.items())
        count = self._series[f"{definition.name}_count", key]
        return int(count), self._series[f"{definition.name}_sum", key]


def family_name(family: Metric) -> str:
    """A family's name as a query has it."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def scrape(metrics: Metrics) -> Scrape:
    """What the endpoint would answer now."""
    return Scrape(generate_latest(metrics.registry).decode())


def scrape_process(process: SimulatedProcess) -> Scrape:
    """What a process of a simulated cluster would answer now."""
    return scrape(controller_metrics(process.controller, process.leadership))
