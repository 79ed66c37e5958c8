"""What a scenario is: a name, who takes part, how often, and a measurement."""

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
    """Nodes of four equal GPUs."""
    return Fleet(nodes=nodes, shape=NodeShape(gpus=GPUS_PER_NODE))


@dataclass(frozen=True, kw_only=True)
class Scenario(ABC):
    """Measures each of its contenders in turn, `rounds` times, on the control plane."""

    name: str
    title: str
    """One line for people: what is done."""
    contenders: tuple[Contender, ...]
    rounds: int = 1
    flags: Flags = field(default_factory=dict)
    """The controller's, beside those that every scenario sets."""

    @abstractmethod
    async def measure(self, stage: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """Measure one contender once."""

    @abstractmethod
    def quick(self) -> Scenario:
        """The same in small: it shows that the scenario works, its figures mean little."""

    def sample(
        self,
        scene: ContenderRun,
        round_number: int,
        *,
        operations: int,
        seconds: float,
        latencies: Mapping[str, list[float]],
        part: str = "",
        **notes: float,
    ) -> Sample:
        """What the scene's meter counted, as a sample; `part` tells several of one measurement apart."""
        contender = scene.process.contender
        return Sample(
            scenario=f"{self.name}{part}",
            contender=contender.kind.value,
            workers=contender.workers,
            round=round_number,
            operations=operations,
            seconds=seconds,
            cpu_seconds=scene.meter.cpu_seconds,
            cpu_wait_seconds=scene.meter.cpu_wait_seconds,
            plane_cpu_seconds=scene.meter.plane_cpu_seconds,
            rss_peak_bytes=scene.process.rss_peak_bytes(),
            requests=scene.meter.requests,
            events=scene.meter.events,
            latencies=dict(latencies),
            notes=notes,
        )


def load_average() -> float:
    """The machine's load over one minute, also by what is none of ours."""
    return os.getloadavg()[0]
