"""The control plane that all scenarios of a run share, and what they do on it: furnish, submit, delete,
watch.

Each measurement finds the cluster empty but for its own fleet. Blocking work of the driver runs in
threads, so that the watches of the harness never wait for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import anyio
from anyio import to_thread

from bench.client import Client
from bench.contender import Contender, ContenderProcess, Flags, running
from bench.meter import Meter
from bench.observer import Observer, now, observing
from e2e.controlplane import WORKER_NAMESPACE, Cluster, Fleet
from e2e.harness.workloads import WORKLOADS, workload

SUBMITTERS = 8
"""Connections that create or delete Workloads at once: enough that no contender waits for work."""


@dataclass
class ContenderRun:
    """One contender at work on a fleet, watched."""

    stage: Testbed
    observer: Observer
    process: ContenderProcess
    meter: Meter

    async def place(self, names: Iterable[str], *, shared: bool, timeout_seconds: float) -> dict[str, float]:
        """Create Workloads and return once all run; the answer says when each was sent."""
        wanted = frozenset(names)
        sent = await self.stage.submit(sorted(wanted), shared=shared)
        running = self.observer.timeline.running
        await self.observer.until(
            lambda: wanted <= running.keys(), f"{len(wanted)} run", timeout_seconds=timeout_seconds
        )
        return sent

    async def remove(self, names: Iterable[str], *, timeout_seconds: float) -> dict[str, float]:
        """Delete Workloads and return once all are gone; the answer says when each deletion was sent."""
        gone = frozenset(names)
        sent = await self.stage.delete(sorted(gone))
        present = self.observer.timeline.present
        await self.observer.until(
            lambda: not gone & present, f"{len(gone)} are gone", timeout_seconds=timeout_seconds
        )
        return sent


class Testbed:
    """The cluster of a run."""

    def __init__(self, cluster: Cluster, client: Client, folder: Path, profiles: Path | None) -> None:
        self.cluster = cluster
        self.client = client
        self._folder = folder
        self._profiles = profiles
        self._runs = count(1)

    def __repr__(self) -> str:
        return f"<Stage {self.cluster!r}>"

    async def furnish(self, fleet: Fleet) -> None:
        """Empty the cluster, then make the fleet."""
        await to_thread.run_sync(self.cluster.clear)
        await to_thread.run_sync(self.cluster.furnish, fleet)

    @asynccontextmanager
    async def scene(
        self, scenario: str, contender: Contender, fleet: Fleet, flags: Flags
    ) -> AsyncIterator[ContenderRun]:
        """Yield a contender that is ready, on a cluster with nothing but this fleet."""
        await self.furnish(fleet)
        label = f"{next(self._runs):03}-{scenario}-{contender.kind.name.lower()}-{contender.workers}"
        profile = self._profiles / f"{label}.prof" if self._profiles else None
        log = self._folder / f"{label}.log"
        async with (
            observing(self.client) as observer,
            running(contender, self.cluster, log, flags, profile) as process,
        ):
            meter = Meter(process, self.cluster)
            await meter.quiet()
            yield ContenderRun(self, observer, process, meter)

    async def submit(self, names: Iterable[str], *, shared: bool) -> dict[str, float]:
        """Create Workloads, in this order; the answer says when each was sent."""
        sent: dict[str, float] = {}

        async def create(name: str) -> None:
            sent[name] = now()
            await self.client.create(WORKLOADS, workload(name, shared=shared))

        await self._spread(create, names)
        return sent

    async def delete(self, names: Iterable[str]) -> dict[str, float]:
        """Ask for the deletion of Workloads; the answer says when each was sent."""
        sent: dict[str, float] = {}

        async def delete(name: str) -> None:
            sent[name] = now()
            await self.client.delete(f"{WORKLOADS}/{name}")

        await self._spread(delete, names)
        return sent

    async def evict(self, pod: str) -> float:
        """Evict a Pod, as a drain does; the answer says when it was sent."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": WORKER_NAMESPACE},
        }
        sent = now()
        await self.client.create(f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods/{pod}/eviction", body)
        return sent

    @staticmethod
    async def _spread(action: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
        """Do the same for each name, some at once, begun in order."""
        left = iter(names)

        async def work() -> None:
            for name in left:
                await action(name)

        async with anyio.create_task_group() as tasks:
            for _ in range(SUBMITTERS):
                tasks.start_soon(work)
