"""Samples by scenario and contender, and figures that derive from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from bench.audit_requests import sum_calls
from bench.contender import ContenderInfo
from bench.percentiles import ratio_of_pairs
from bench.samples import Sample


@dataclass(frozen=True)
class Series:
    """The rounds of one contender in one scenario."""

    samples: tuple[Sample, ...]

    @property
    def rates(self) -> list[float]:
        """Operations per second, by round."""
        return [sample.operations / sample.seconds for sample in self.samples]

    @property
    def rate(self) -> float:
        """Median rate."""
        return median(self.rates)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds per operation, median of the rounds."""
        return median(sample.cpu_seconds / sample.operations for sample in self.samples)

    @property
    def cpu_share(self) -> float:
        """CPU seconds per second, median of the rounds."""
        return median(sample.cpu_seconds / sample.seconds for sample in self.samples)

    @property
    def cpu_wait_seconds(self) -> float:
        """Seconds of CPU wait per operation, median of the rounds."""
        return median(sample.cpu_wait_seconds / sample.operations for sample in self.samples)

    def plane_cpu_seconds(self, component: str) -> float:
        """Return a control-plane component's CPU seconds per operation, median of the rounds."""
        return median(sample.plane_cpu_seconds[component] / sample.operations for sample in self.samples)

    @property
    def rss_peak_bytes(self) -> int:
        """Maximum of all rounds."""
        return max(sample.rss_peak_bytes for sample in self.samples)

    @property
    def operations(self) -> int:
        """Sum over all rounds."""
        return sum(sample.operations for sample in self.samples)

    @property
    def events(self) -> int:
        """Sum of Events over all rounds."""
        return sum(sample.events for sample in self.samples)

    @property
    def requests(self) -> dict[str, int]:
        """Sum over all rounds, by verb and resource."""
        total: dict[str, int] = {}
        for sample in self.samples:
            total = sum_calls(total, sample.requests)
        return total

    def per_operation(self, requests: float) -> float:
        """Return a number of requests of all rounds per operation."""
        return requests / self.operations

    @property
    def latencies(self) -> dict[str, list[float]]:
        """Latencies of all rounds, in seconds."""
        pooled: dict[str, list[float]] = {}
        for sample in self.samples:
            for label, values in sample.latencies.items():
                pooled.setdefault(label, []).extend(values)
        return pooled


@dataclass(frozen=True)
class Measured:
    """The samples of a run."""

    samples: tuple[Sample, ...]

    def series(self, scenario: str, kind: ContenderInfo, workers: int) -> Series | None:
        """Return the rounds of one contender in one scenario, None if there are none."""
        found = [s for s in self.samples if _key(s) == (scenario, kind.value, workers)]
        return Series(tuple(sorted(found, key=lambda sample: sample.round))) if found else None

    def workers(self, scenario: str) -> list[int]:
        """Return the numbers of concurrent reconciles or writers in a scenario, ascending."""
        return sorted({sample.workers for sample in self.samples if sample.scenario == scenario})

    def all_series(self) -> list[tuple[str, str, Series]]:
        """Return scenario, contender and series of all measurements on the cluster, in their order."""
        kinds = {kind.value: kind for kind in ContenderInfo}
        keys = dict.fromkeys(_key(sample) for sample in self.samples if sample.contender in kinds)
        found = []
        for scenario, contender, workers in keys:
            series = self.series(scenario, kinds[contender], workers)
            if series is not None:
                found.append((scenario, f"{contender}, {workers}", series))
        return found


def _key(sample: Sample) -> tuple[str, str, int]:
    return sample.scenario, sample.contender, sample.workers


def speed_ratio(ours: Series, theirs: Series) -> float:
    """Return the ratio of the rates, by round."""
    return ratio_of_pairs(ours.rates, theirs.rates)


def latest(samples: Iterable[Sample], scenario: str) -> Sequence[Sample]:
    """Return the samples of one scenario."""
    return [sample for sample in samples if sample.scenario == scenario]
