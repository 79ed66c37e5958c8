"""Sequential drains of nodes: a node is cordoned and its Pods are evicted, as by `kubectl drain`.

Every worker must run again on another node. The fleet has enough free GPUs.
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
    """A scenario with dedicated workers and `drains` drained nodes."""

    workers: int
    nodes: int
    drains: int

    moved: ClassVar[str] = "evicted to running elsewhere"

    async def measure(self, testbed: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """Measure the costs per moved worker."""
        async with testbed.start(self.name, contender, gpu_fleet(self.nodes), self.flags) as run:
            names = [f"worker-{number:03}" for number in range(self.workers)]
            await run.place(names, shared=False, timeout_seconds=STEP_TIMEOUT_SECONDS)
            await run.meter.settle()
            latencies: list[float] = []
            for _ in range(self.drains):
                latencies += await self._drain(run)
            return [
                self.sample(
                    run,
                    round_number,
                    operations=len(latencies),
                    seconds=sum(latencies),
                    latencies={self.moved: latencies},
                )
            ]

    async def _drain(self, run: ContenderRun) -> list[float]:
        """Drain the node with the most workers, and return how long each took to run elsewhere."""
        timeline, api = run.observer.timeline, run.testbed.cluster.api
        node, names = max(timeline.by_node().items(), key=lambda item: (len(item[1]), item[0]))
        await to_thread.run_sync(cluster_fleet.cordon, api, node)
        await run.meter.quiet()
        run.meter.begin()
        sent = {name: await run.testbed.evict(f"orw-{name}") for name in names}
        await run.observer.until(
            lambda: all(timeline.running.get(name, node) != node for name in names),
            f"the {len(names)} workers of {node} run elsewhere",
            timeout_seconds=STEP_TIMEOUT_SECONDS,
        )
        await run.meter.end()
        await to_thread.run_sync(lambda: cluster_fleet.cordon(api, node, on=False))
        return [timeline.running_since[name] - sent[name] for name in names]

    def quick(self) -> Drain:
        """Return a variant that drains one node."""
        return replace(self, workers=6, nodes=3, drains=1)
