"""Single placements on an empty fleet and on one with hundreds of workers: how much these workers cost.

The bare writer shows how much the fleet size costs kube-scheduler alone. It removes nothing, so its late
workers stay, and the fleet has enough GPUs for them.
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
    """A scenario with `samples` single placements before and after `placed` others."""

    placed: int
    samples: int

    on_empty: ClassVar[str] = "one on an empty fleet"
    on_full: ClassVar[str] = "one late on a full fleet"

    async def measure(self, testbed: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """Measure the costs of the single placements on the full fleet."""
        spare = self.samples * 2 + 1
        nodes = -(-(self.placed + spare) // GPUS_PER_NODE)
        async with testbed.start(self.name, contender, gpu_fleet(nodes), self.flags) as run:
            await self._single(run, "warm-up")
            empty = [await self._single(run, f"early-{number}") for number in range(self.samples)]
            names = [f"worker-{number:03}" for number in range(self.placed)]
            timeout_seconds = STEP_TIMEOUT_SECONDS + TIMEOUT_SECONDS_PER_WORKER * self.placed
            await run.place(names, shared=False, timeout_seconds=timeout_seconds)
            await run.meter.settle()
            run.meter = Meter(run.process, testbed.cluster)
            full = [await self._single(run, f"late-{number}") for number in range(self.samples)]
            return [
                self.sample(
                    run,
                    round_number,
                    operations=self.samples,
                    seconds=sum(full),
                    latencies={self.on_empty: empty, self.on_full: full},
                )
            ]

    async def _single(self, run: ContenderRun, name: str) -> float:
        """Return the seconds from a creation until the worker runs, starting when all is quiet."""
        await run.meter.quiet()
        run.meter.begin()
        sent = await run.place([name], shared=False, timeout_seconds=STEP_TIMEOUT_SECONDS)
        await run.meter.end()
        if run.process.contender.kind is ContenderInfo.CONTROLLER:
            await run.remove([name], timeout_seconds=STEP_TIMEOUT_SECONDS)
        return run.observer.timeline.running_since[name] - sent[name]

    def quick(self) -> LatePlacement:
        """Return a variant on a small fleet."""
        return replace(self, placed=12, samples=2)
