"""One placement at a time, on an empty fleet and on one where hundreds are placed: what the others cost it.

The bare writer shows what the fleet's size costs kube-scheduler alone; since it removes nothing, its
late workers stay and the fleet has room for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.contender import Contender, ContenderInfo
from bench.meter import Meter
from bench.samples import Sample
from bench.scenarios.base import GPUS_PER_NODE, Scenario, gpu_fleet
from bench.testbed import ContenderRun, Testbed

STEP_TIMEOUT_SECONDS = 60
TIMEOUT_SECONDS_PER_WORKER = 3


@dataclass(frozen=True, kw_only=True)
class LatePlacement(Scenario):
    """`samples` single placements before and after `placed` others."""

    placed: int
    samples: int

    on_empty: ClassVar[str] = "one on an empty fleet"
    on_full: ClassVar[str] = "one late on a full fleet"

    async def measure(self, stage: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """The single placements of the full fleet are what the costs are of."""
        spare = self.samples * 2 + 1
        nodes = -(-(self.placed + spare) // GPUS_PER_NODE)
        async with stage.scene(self.name, contender, gpu_fleet(nodes), self.flags) as scene:
            await self._single(scene, "warm-up")
            empty = [await self._single(scene, f"early-{number}") for number in range(self.samples)]
            names = [f"worker-{number:03}" for number in range(self.placed)]
            timeout_seconds = STEP_TIMEOUT_SECONDS + TIMEOUT_SECONDS_PER_WORKER * self.placed
            await scene.place(names, shared=False, timeout_seconds=timeout_seconds)
            await scene.meter.settle()
            scene.meter = Meter(scene.process, stage.cluster)
            full = [await self._single(scene, f"late-{number}") for number in range(self.samples)]
            return [
                self.sample(
                    scene,
                    round_number,
                    operations=self.samples,
                    seconds=sum(full),
                    latencies={self.on_empty: empty, self.on_full: full},
                )
            ]

    async def _single(self, scene: ContenderRun, name: str) -> float:
        """Seconds from one creation until the worker runs, with everything quiet before it."""
        await scene.meter.quiet()
        scene.meter.begin()
        sent = await scene.place([name], shared=False, timeout_seconds=STEP_TIMEOUT_SECONDS)
        await scene.meter.end()
        if scene.process.contender.kind is ContenderInfo.CONTROLLER:
            await scene.remove([name], timeout_seconds=STEP_TIMEOUT_SECONDS)
        return scene.observer.timeline.running_since[name] - sent[name]

    def quick(self) -> LatePlacement:
        """On a small fleet."""
        return replace(self, placed=12, samples=2)
