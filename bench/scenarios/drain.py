"""Nodes are drained one after the other: cordoned, and their Pods evicted, as `kubectl drain` does.

Every worker must run again on another node. The fleet has room for what is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from anyio import to_thread

from bench.contender import Contender
from bench.samples import Sample
from bench.scenarios.base import Scenario, gpu_fleet
from bench.testbed import ContenderRun, Testbed
from e2e.controlplane import fleet as cluster_fleet

STEP_TIMEOUT_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Drain(Scenario):
    """Dedicated workers on a fleet of which `drains` nodes are drained."""

    workers: int
    nodes: int
    drains: int

    moved: ClassVar[str] = "evicted to running elsewhere"

    async def measure(self, stage: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """The costs are those of one worker that moves."""
        async with stage.scene(self.name, contender, gpu_fleet(self.nodes), self.flags) as scene:
            names = [f"worker-{number:03}" for number in range(self.workers)]
            await scene.place(names, shared=False, timeout_seconds=STEP_TIMEOUT_SECONDS)
            await scene.meter.settle()
            latencies: list[float] = []
            for _ in range(self.drains):
                latencies += await self._drain(scene)
            return [
                self.sample(
                    scene,
                    round_number,
                    operations=len(latencies),
                    seconds=sum(latencies),
                    latencies={self.moved: latencies},
                )
            ]

    async def _drain(self, scene: ContenderRun) -> list[float]:
        """Drain the fullest node, and return how long each of its workers took to run elsewhere."""
        timeline, api = scene.observer.timeline, scene.stage.cluster.api
        node, names = max(timeline.by_node().items(), key=lambda item: (len(item[1]), item[0]))
        await to_thread.run_sync(cluster_fleet.cordon, api, node)
        await scene.meter.quiet()
        scene.meter.begin()
        sent = {name: await scene.stage.evict(f"orw-{name}") for name in names}
        await scene.observer.until(
            lambda: all(timeline.running.get(name, node) != node for name in names),
            f"the {len(names)} workers of {node} run elsewhere",
            timeout_seconds=STEP_TIMEOUT_SECONDS,
        )
        await scene.meter.end()
        await to_thread.run_sync(lambda: cluster_fleet.cordon(api, node, on=False))
        return [timeline.running_since[name] - sent[name] for name in names]

    def quick(self) -> Drain:
        """One node."""
        return replace(self, workers=6, nodes=3, drains=1)
