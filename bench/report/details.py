"""Detail tables: throughput and costs, latencies, requests by verb and resource, decision times."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.percentiles import Spread
from bench.report.headline import headline
from bench.report.informers import figures, targets
from bench.report.measured import Measured, latest
from bench.report.table import Table
from bench.samples import Sample
from bench.scenarios.catalog import DECISION
from bench.scenarios.decision import sizes_of
from e2e.controlplane.local import COMPONENTS

MIB = 1 << 20
PERCENTILE_COLUMNS = ("count", "p50", "p90", "p99", "largest")


def all_tables(samples: Sequence[Sample]) -> list[Table]:
    """Return every table that has rows for these samples."""
    measured = Measured(tuple(samples))
    tables = [
        headline(measured),
        costs(measured),
        plane_costs(measured),
        latencies(measured),
        requests(measured),
        decision(measured),
        targets(samples),
        figures(samples),
    ]
    return [table for table in tables if table.rows]


def costs(measured: Measured) -> Table:
    """Return throughput, CPU time and memory."""
    rows = [
        (
            scenario,
            contender,
            str(len(series.samples)),
            f"{series.rate:.1f}",
            f"{series.cpu_seconds * 1000:.1f}",
            f"{series.cpu_wait_seconds * 1000:.1f}",
            f"{series.rss_peak_bytes / MIB:.0f}",
            f"{series.per_operation(series.events):.2f}",
            " ".join(f"{sample.load_before:.1f}" for sample in series.samples),
        )
        for scenario, contender, series in measured.all_series()
    ]
    columns = (
        "scenario",
        "contender",
        "rounds",
        "per second",
        "CPU ms each",
        "CPU wait ms each",
        "peak RSS MiB",
        "Events each",
        "load before",
    )
    return Table("Throughput and cost", columns, tuple(rows), text_columns=2)


def plane_costs(measured: Measured) -> Table:
    """Return the CPU time of the control plane per operation of a contender."""
    rows = [
        (scenario, contender, *(f"{series.plane_cpu_seconds(name) * 1000:.1f}" for name in COMPONENTS))
        for scenario, contender, series in measured.all_series()
    ]
    columns = ("scenario", "contender", *COMPONENTS)
    return Table("Control-plane CPU in milliseconds each", columns, tuple(rows), text_columns=2)


def latencies(measured: Measured) -> Table:
    """Return latencies in milliseconds, over all rounds."""
    rows = [
        (scenario, contender, label, *_cells(Spread.of(values)))
        for scenario, contender, series in measured.all_series()
        for label, values in series.latencies.items()
    ]
    columns = ("scenario", "contender", "interval", *PERCENTILE_COLUMNS)
    return Table("Latencies in milliseconds", columns, tuple(rows), text_columns=3)


def requests(measured: Measured) -> Table:
    """Return requests per operation by verb and resource, including upkeep and without Events."""
    rows = [
        (scenario, contender, call, f"{series.per_operation(count):.2f}")
        for scenario, contender, series in measured.all_series()
        for call, count in _by_size(series.requests)
    ]
    columns = ("scenario", "contender", "request", "per operation")
    return Table("API requests", columns, tuple(rows), text_columns=3)


def decision(measured: Measured) -> Table:
    """Return microseconds per decision by the number of claims."""
    samples = sizes_of(latest(measured.samples, DECISION.name))
    labels = next((list(sample.latencies) for sample in samples.values()), [])
    rows = [
        (label, *(f"{seconds * 1e6:.1f}" for seconds in medians), f"{medians[-1] / medians[0]:.2f}")
        for label in labels
        if (medians := [median(sample.latencies[label]) for sample in samples.values()])
    ]
    columns = ("decision", *(f"{size:,} claims" for size in samples), "last / first")
    return Table("Decision time in microseconds", columns, tuple(rows))


def _cells(spread: Spread) -> tuple[str, ...]:
    values = (spread.p50, spread.p90, spread.p99, spread.largest)
    return str(spread.count), *(f"{value * 1000:.1f}" for value in values)


def _by_size(requests: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(requests.items(), key=lambda item: (-item[1], item[0]))
