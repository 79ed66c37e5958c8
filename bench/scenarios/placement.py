"""Many Workloads at once on an idle fleet: from the first creation until all run, then all are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.contender import Contender, ContenderInfo
from bench.meter import Meter
from bench.observer import now
from bench.samples import Sample
from bench.scenarios.base import GPUS_PER_NODE, Scenario, gpu_fleet
from bench.testbed import ContenderRun, Testbed

REMOVAL = "/removal"

QUICK_WORKERS = 12
TIMEOUT_SECONDS_PER_WORKER = 3


@dataclass(frozen=True, kw_only=True)
class Placement(Scenario):
    """`workers` Workloads on exactly as many seats."""

    workers: int
    nodes: int
    seats_per_gpu: int = 1
    """1: dedicated and exclusive. More: the Workloads share, with that limit."""

    created: ClassVar[str] = "created to running"
    booked: ClassVar[str] = "created to booked"
    deleted: ClassVar[str] = "deletion of all to the last gone"

    async def measure(self, stage: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """Place all; the controller then removes all, which a bare writer cannot."""
        flags = (
            {**self.flags, "--max-seats-per-claim": str(self.seats_per_gpu)} if self.shared else self.flags
        )
        async with stage.scene(self.name, contender, gpu_fleet(self.nodes), flags) as scene:
            names = [f"worker-{number:03}" for number in range(self.workers)]
            placed = await self._place(scene, names, round_number)
            if contender.kind is ContenderInfo.BARE_WRITER:
                return [placed]
            scene.meter = Meter(scene.process, stage.cluster)
            return [placed, await self._remove(scene, names, round_number)]

    @property
    def shared(self) -> bool:
        """Whether workers share GPUs."""
        return self.seats_per_gpu > 1

    async def _place(self, scene: ContenderRun, names: Sequence[str], round_number: int) -> Sample:
        scene.meter.begin()
        started = now()
        sent = await scene.place(names, shared=self.shared, timeout_seconds=self._timeout_seconds)
        seconds = now() - started
        await scene.meter.end()
        timeline = scene.observer.timeline
        return self.sample(
            scene,
            round_number,
            operations=self.workers,
            seconds=seconds,
            latencies={
                self.created: [timeline.running_since[name] - sent[name] for name in names],
                self.booked: [timeline.booked_at[name] - sent[name] for name in names],
            },
            most_seats=timeline.most_seats,
        )

    async def _remove(self, scene: ContenderRun, names: Sequence[str], round_number: int) -> Sample:
        scene.meter.begin()
        started = now()
        await scene.remove(names, timeout_seconds=self._timeout_seconds)
        seconds = now() - started
        await scene.meter.end()
        return self.sample(
            scene, round_number, operations=self.workers, seconds=seconds, latencies={}, part=REMOVAL
        )

    @property
    def _timeout_seconds(self) -> float:
        return 30 + TIMEOUT_SECONDS_PER_WORKER * self.workers

    def quick(self) -> Placement:
        """On as many GPUs as needed."""
        nodes = QUICK_WORKERS // (GPUS_PER_NODE * self.seats_per_gpu) + (self.seats_per_gpu > 1)
        workers = nodes * GPUS_PER_NODE * self.seats_per_gpu
        return replace(self, workers=workers, nodes=nodes)
