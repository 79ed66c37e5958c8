"""Placement of many Workloads at once on an idle fleet, and their deletion."""

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
    """A scenario with `workers` Workloads and exactly as many seats."""

    workers: int
    nodes: int
    seats_per_gpu: int = 1
    """1: dedicated and exclusive. More: the Workloads share, with this limit."""

    created: ClassVar[str] = "created to running"
    booked: ClassVar[str] = "created to booked"
    deleted: ClassVar[str] = "deletion of all to the last gone"

    async def measure(self, testbed: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """Place all Workloads. The controller then removes them, which the bare writer cannot."""
        flags = (
            {**self.flags, "--max-seats-per-claim": str(self.seats_per_gpu)} if self.shared else self.flags
        )
        async with testbed.start(self.name, contender, gpu_fleet(self.nodes), flags) as run:
            names = [f"worker-{number:03}" for number in range(self.workers)]
            placed = await self._place(run, names, round_number)
            if contender.kind is ContenderInfo.BARE_WRITER:
                return [placed]
            run.meter = Meter(run.process, testbed.cluster)
            return [placed, await self._remove(run, names, round_number)]

    @property
    def shared(self) -> bool:
        """Whether workers share GPUs."""
        return self.seats_per_gpu > 1

    async def _place(self, run: ContenderRun, names: Sequence[str], round_number: int) -> Sample:
        run.meter.begin()
        started = now()
        sent = await run.place(names, shared=self.shared, timeout_seconds=self._timeout_seconds)
        seconds = now() - started
        await run.meter.end()
        timeline = run.observer.timeline
        return self.sample(
            run,
            round_number,
            operations=self.workers,
            seconds=seconds,
            latencies={
                self.created: [timeline.running_since[name] - sent[name] for name in names],
                self.booked: [timeline.booked_at[name] - sent[name] for name in names],
            },
            most_seats=timeline.most_seats,
        )

    async def _remove(self, run: ContenderRun, names: Sequence[str], round_number: int) -> Sample:
        run.meter.begin()
        started = now()
        await run.remove(names, timeout_seconds=self._timeout_seconds)
        seconds = now() - started
        await run.meter.end()
        return self.sample(
            run, round_number, operations=self.workers, seconds=seconds, latencies={}, part=REMOVAL
        )

    @property
    def _timeout_seconds(self) -> float:
        return 30 + TIMEOUT_SECONDS_PER_WORKER * self.workers

    def quick(self) -> Placement:
        """Return a variant with few workers and as many seats."""
        nodes = QUICK_WORKERS // (GPUS_PER_NODE * self.seats_per_gpu) + (self.seats_per_gpu > 1)
        workers = nodes * GPUS_PER_NODE * self.seats_per_gpu
        return replace(self, workers=workers, nodes=nodes)
