"""The informers at work on very many Pods that are nobody's workers, without a cluster.

A small server in a process of its own serves Pods of 4 KB that were encoded before they are asked for. Every
reader is a fresh process, and who is compared takes turns in one run.
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
    """Measured `rounds` times with `pods` Pods on the server."""

    name: str
    title: str
    pods: int
    rounds: int = 1

    @abstractmethod
    def measure(self) -> list[Sample]:
        """All rounds."""

    def quick(self) -> InformerScenario:
        """The same in small: it shows that the scenario works, its figures mean little."""
        return replace(self, pods=min(self.pods, QUICK_PODS), rounds=1)

    def sample(self, contender: str, round_number: int, report: Report, *, part: str = "") -> Sample:
        """What a reader reported; what has no field of its own becomes a note."""
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


def loaded(samples: Sequence[Sample], load: float) -> list[Sample]:
    """The samples with the machine's load from before they were taken."""
    return [with_changes(sample, load_before=load) for sample in samples]


@dataclass(frozen=True, kw_only=True)
class Sync(InformerScenario):
    """The first list, read in three ways; the typed models once only, since they take half a minute."""

    def measure(self) -> list[Sample]:
        """The order of the ways changes every round."""
        samples: list[Sample] = []
        with serving(self.pods) as service:
            for number in range(1, self.rounds + 1):
                ways = [INFORMER, PLAIN] if number % 2 else [PLAIN, INFORMER]
                for way in [*ways, *([TYPED] if number == 1 else [])]:
                    load = load_average()
                    (report,) = service.read("readers", way)
                    samples += loaded([self.sample(way, number, report)], load)
        return samples


@dataclass(frozen=True, kw_only=True)
class Held(InformerScenario):
    """The memory that the store takes for each Pod, from the allocator's own account."""

    def measure(self) -> list[Sample]:
        """Exact, so that one round is enough."""
        with serving(self.pods) as service:
            (report,) = service.read("readers", "held")
        return [self.sample(INFORMER, 1, report)]


@dataclass(frozen=True, kw_only=True)
class Relists(InformerScenario):
    """The controller's caches and picture under relists, after so large shares of the Pods had changed."""

    shares: ClassVar[tuple[str, ...]] = ("0", "0.01", "1")

    def measure(self) -> list[Sample]:
        """A part for each share, and one for the first list."""
        samples: list[Sample] = []
        for number in range(1, self.rounds + 1):
            load = load_average()
            with serving(self.pods) as service:
                reports = service.read("relists", after=self.shares)
            measured = [self.sample(INFORMER, number, r, part=_part(r["share"])) for r in reports]
            samples += loaded(measured, load)
        return samples


def _part(share: float) -> str:
    return "/first list" if share < 0 else f"/{share:.0%} changed"


@dataclass(frozen=True, kw_only=True)
class ProgramMemory(InformerScenario):
    """The whole program with all its informers: its largest resident set after so many relists."""

    relists: int

    def measure(self) -> list[Sample]:
        """A fresh server and a fresh program."""
        with serving(self.pods) as service:
            report = relisted_program(service, self.relists)
        return [self.sample(PROGRAM, 1, {**report, "objects": self.pods})]


@dataclass(frozen=True, kw_only=True)
class Bursts(InformerScenario):
    """Changes over one watch, as fast as they are taken."""

    events: int

    def measure(self) -> list[Sample]:
        """Rounds are fresh processes."""
        samples: list[Sample] = []
        with serving(self.pods) as service:
            for number in range(1, self.rounds + 1):
                load = load_average()
                (report,) = service.read("bursts", after=[str(self.events)])
                samples += loaded([self.sample(INFORMER, number, report)], load)
        return samples

    def quick(self) -> Bursts:
        """Few."""
        return replace(self, pods=QUICK_PODS, events=5_000, rounds=1)


@dataclass(frozen=True, kw_only=True)
class Queue(InformerScenario):
    """The work queue alone, in this process: add, get, done, while `pods` other keys wait for their time."""

    delayed: tuple[int, ...]

    def measure(self) -> list[Sample]:
        """The numbers of delayed keys take turns."""
        samples: list[Sample] = []
        for number in range(1, self.rounds + 1):
            for delayed in self.delayed if number % 2 else reversed(self.delayed):
                load = load_average()
                report = cycles(delayed, self.pods)
                sample = self.sample("queue", number, report)
                samples += loaded([msgspec.structs.replace(sample, workers=delayed)], load)
        return samples
