"""The informers with a large number of foreign Pods, without a cluster.

A small server process serves Pods of 4 KB, encoded in advance. Every reader is a new process, and the readers
that are compared take turns in one run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec
from msgspec.structs import replace as with_changes

from bench.informers.children import Report, serving
from bench.informers.programs import relisted_program
from bench.informers.queueing import cycles
from bench.samples import Sample
from bench.scenarios.base import load_average

INFORMER, PLAIN, TYPED = "informer", "plain", "typed"
PROGRAM = "program"
QUICK_PODS = 2_000


@dataclass(frozen=True, kw_only=True)
class InformerScenario(ABC):
    """A scenario with `pods` Pods on the server, measured `rounds` times."""

    name: str
    title: str
    pods: int
    rounds: int = 1

    @abstractmethod
    def measure(self) -> list[Sample]:
        """Measure all rounds."""

    def quick(self) -> InformerScenario:
        """Return a small variant for a functional check. Its figures are not meaningful."""
        return replace(self, pods=min(self.pods, QUICK_PODS), rounds=1)

    def sample(self, contender: str, round_number: int, report: Report, *, part: str = "") -> Sample:
        """Return the report of a reader as a sample. Values without a field become notes."""
        notes = {name: float(value) for name, value in report.items() if name not in _FIELDS}
        return Sample(
            scenario=f"{self.name}{part}",
            contender=contender,
            workers=self.pods,
            round=round_number,
            operations=int(report["objects"]),
            seconds=report["seconds"],
            cpu_seconds=report.get("cpu_seconds", 0.0),
            cpu_wait_seconds=report.get("cpu_wait_seconds", 0.0),
            rss_peak_bytes=int(report.get("rss_peak_bytes", 0)),
            notes=notes,
        )


_FIELDS = frozenset({"objects", "seconds", "cpu_seconds", "cpu_wait_seconds", "rss_peak_bytes"})


def with_load(samples: Sequence[Sample], load: float) -> list[Sample]:
    """Return the samples with the load average before their measurement."""
    return [with_changes(sample, load_before=load) for sample in samples]


@dataclass(frozen=True, kw_only=True)
class Sync(InformerScenario):
    """The first list, by three readers. The typed models run only once, because they take half a minute."""

    def measure(self) -> list[Sample]:
        """Measure all rounds, and reverse the order of the readers in each."""
        samples: list[Sample] = []
        with serving(self.pods) as service:
            for number in range(1, self.rounds + 1):
                readers = [INFORMER, PLAIN] if number % 2 else [PLAIN, INFORMER]
                for reader in [*readers, *([TYPED] if number == 1 else [])]:
                    load = load_average()
                    (report,) = service.read("readers", reader)
                    samples += with_load([self.sample(reader, number, report)], load)
        return samples


@dataclass(frozen=True, kw_only=True)
class Held(InformerScenario):
    """The memory of the store per Pod, as traced by the allocator."""

    def measure(self) -> list[Sample]:
        """Measure one round, which is exact."""
        with serving(self.pods) as service:
            (report,) = service.read("readers", "held")
        return [self.sample(INFORMER, 1, report)]


@dataclass(frozen=True, kw_only=True)
class Relists(InformerScenario):
    """The controller's caches and fleet under relists, after these shares of the Pods have changed."""

    shares: ClassVar[tuple[str, ...]] = ("0", "0.01", "1")

    def measure(self) -> list[Sample]:
        """Measure one part per share, and one for the first list."""
        samples: list[Sample] = []
        for number in range(1, self.rounds + 1):
            load = load_average()
            with serving(self.pods) as service:
                reports = service.read("relists", after=self.shares)
            measured = [self.sample(INFORMER, number, r, part=_part(r["share"])) for r in reports]
            samples += with_load(measured, load)
        return samples


def _part(share: float) -> str:
    return "/first list" if share < 0 else f"/{share:.0%} changed"


@dataclass(frozen=True, kw_only=True)
class ProgramMemory(InformerScenario):
    """The whole controller with all its informers: its peak resident set after `relists` relists."""

    relists: int

    def measure(self) -> list[Sample]:
        """Measure a new server and a new controller."""
        with serving(self.pods) as service:
            report = relisted_program(service, self.relists)
        return [self.sample(PROGRAM, 1, {**report, "objects": self.pods})]


@dataclass(frozen=True, kw_only=True)
class Bursts(InformerScenario):
    """Changes in one watch, as fast as the informer reads them."""

    events: int

    def measure(self) -> list[Sample]:
        """Measure each round in a new process."""
        samples: list[Sample] = []
        with serving(self.pods) as service:
            for number in range(1, self.rounds + 1):
                load = load_average()
                (report,) = service.read("bursts", after=[str(self.events)])
                samples += with_load([self.sample(INFORMER, number, report)], load)
        return samples

    def quick(self) -> Bursts:
        """Return a variant with few Pods and events."""
        return replace(self, pods=QUICK_PODS, events=5_000, rounds=1)


@dataclass(frozen=True, kw_only=True)
class Queue(InformerScenario):
    """The work queue in this process: cycles of add, get and done, with `delayed` other keys."""

    delayed: tuple[int, ...]

    def measure(self) -> list[Sample]:
        """Measure all rounds, alternating the number of delayed keys."""
        samples: list[Sample] = []
        for number in range(1, self.rounds + 1):
            for delayed in self.delayed if number % 2 else reversed(self.delayed):
                load = load_average()
                report = cycles(delayed, self.pods)
                sample = self.sample("queue", number, report)
                samples += with_load([msgspec.structs.replace(sample, workers=delayed)], load)
        return samples
