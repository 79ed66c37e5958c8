"""The base of scenarios: a name, its contenders, the number of rounds, and a measurement."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.contender import Contender, Flags
from bench.samples import Sample
from bench.testbed import ContenderRun, Testbed
from e2e.controlplane import Fleet, NodeShape

GPUS_PER_NODE = 4


def gpu_fleet(nodes: int) -> Fleet:
    """Return a fleet of nodes with four equal GPUs each."""
    return Fleet(nodes=nodes, shape=NodeShape(gpus=GPUS_PER_NODE))


@dataclass(frozen=True, kw_only=True)
class Scenario(ABC):
    """A scenario on the control plane that measures its contenders in turn, `rounds` times."""

    name: str
    title: str
    """Description in one line."""
    contenders: tuple[Contender, ...]
    rounds: int = 1
    flags: Flags = field(default_factory=dict)
    """Additional flags of the controller."""

    @abstractmethod
    async def measure(self, testbed: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """Measure one contender once."""

    @abstractmethod
    def quick(self) -> Scenario:
        """Return a small variant for a functional check. Its figures are not meaningful."""

    def sample(
        self,
        run: ContenderRun,
        round_number: int,
        *,
        operations: int,
        seconds: float,
        latencies: Mapping[str, list[float]],
        part: str = "",
        **notes: float,
    ) -> Sample:
        """Return the meter's counts as a sample. `part` names it if one measurement has several."""
        contender = run.process.contender
        return Sample(
            scenario=f"{self.name}{part}",
            contender=contender.kind.value,
            workers=contender.workers,
            round=round_number,
            operations=operations,
            seconds=seconds,
            cpu_seconds=run.meter.cpu_seconds,
            cpu_wait_seconds=run.meter.cpu_wait_seconds,
            plane_cpu_seconds=run.meter.plane_cpu_seconds,
            rss_peak_bytes=run.process.rss_peak_bytes(),
            requests=run.meter.requests,
            events=run.meter.events,
            latencies=dict(latencies),
            notes=notes,
        )


def load_average() -> float:
    """Return the one-minute load average of the machine, including foreign processes."""
    return os.getloadavg()[0]
