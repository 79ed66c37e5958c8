"""The default stage: a cluster in this process, and the shipped controller in another process.

The controller connects over the socket only, as it does to a real cluster. This takes less than a second.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from informers.api import WatchEventType
from simulation.apiserver.kinds import LEDGERS
from simulation.apiserver.store import Change
from simulation.cluster.nodes import NodeShape
from simulation.demo.handoff import Revision
from simulation.demo.plan import DemoPlan
from simulation.demo.program import ControllerProcess, running_controller
from simulation.embedded.cluster import EmbeddedCluster


class EmbeddedStage:
    """See `simulation.demo.stage.Stage`. The store reports every write to it."""

    def __init__(self, cluster: EmbeddedCluster, kubeconfig: Path) -> None:
        self.cluster = cluster
        self.controller: ControllerProcess | None = None
        self._kubeconfig = kubeconfig
        self._revisions: list[Revision] = []
        cluster.server.store.subscribe(self._record)

    def __repr__(self) -> str:
        return f"<EmbeddedStage {self.cluster!r} {self.controller!r}>"

    @property
    def kubeconfig(self) -> Path:
        """See `Stage`."""
        return self._kubeconfig

    def require_alive(self) -> None:
        """See `Stage`. Raises `DemoFailed`."""
        if self.controller is not None:
            self.controller.require_alive()

    def revisions(self) -> list[Revision]:
        """See `Stage`."""
        return list(self._revisions)

    def _record(self, change: Change) -> None:
        if change.kind is LEDGERS and change.type is not WatchEventType.DELETED:
            spec = change.record.document["spec"]
            seats = tuple(seat["workload"] for seat in spec.get("seats") or ())
            self._revisions.append(Revision(change.record.key.name, seats, anyio.current_time()))


@asynccontextmanager
async def embedded_stage(plan: DemoPlan) -> AsyncIterator[EmbeddedStage]:
    """Start everything, and stop and remove it at the end. Raises `DemoFailed`, `OSError`."""
    with tempfile.TemporaryDirectory(prefix="open-rl-scheduler-demo-") as folder:
        async with EmbeddedCluster(seed=plan.seed) as cluster:
            shape = NodeShape(gpus=plan.gpus, gpu_memory=plan.gpu_memory)
            cluster.fleet.add_nodes(plan.nodes, shape)
            kubeconfig = Path(folder, "kubeconfig")
            cluster.write_kubeconfig(kubeconfig)
            stage = EmbeddedStage(cluster, kubeconfig)
            flags = {
                "--kubeconfig": str(kubeconfig),
                "--max-seats-per-claim": str(plan.limit),
                "--retry-interval": "1h",  # earlier reactions are caused by events, not by this timer
                "--health-probe-bind-address": "0",
                "--log-format": "json",
            }
            async with running_controller(flags, Path(folder, "controller.log"), os.environ) as controller:
                stage.controller = controller
                try:
                    yield stage
                except anyio.get_cancelled_exc_class():
                    with anyio.CancelScope(shield=True):
                        await controller.stop()
                    raise
                await controller.stop()
