"""The control plane that all scenarios of a run share, and the actions of the scenarios on it.

Each measurement starts with an empty cluster and its own fleet. Blocking calls run in threads, so that the
watches of the benchmark are never delayed.
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
"""Concurrent connections that create or delete Workloads: enough to keep every contender busy."""


@dataclass
class ContenderRun:
    """A running contender with its fleet, observer and meter."""

    testbed: Testbed
    observer: Observer
    process: ContenderProcess
    meter: Meter

    async def place(self, names: Iterable[str], *, shared: bool, timeout_seconds: float) -> dict[str, float]:
        """Create Workloads, wait until all run, and return the time at which each creation was sent."""
        wanted = frozenset(names)
        sent = await self.testbed.submit(sorted(wanted), shared=shared)
        running = self.observer.timeline.running
        await self.observer.until(
            lambda: wanted <= running.keys(), f"{len(wanted)} run", timeout_seconds=timeout_seconds
        )
        return sent

    async def remove(self, names: Iterable[str], *, timeout_seconds: float) -> dict[str, float]:
        """Delete Workloads, wait until none exists, and return the time at which each deletion was sent."""
        deleted = frozenset(names)
        sent = await self.testbed.delete(sorted(deleted))
        present = self.observer.timeline.present
        await self.observer.until(
            lambda: not deleted & present, f"{len(deleted)} are deleted", timeout_seconds=timeout_seconds
        )
        return sent


class Testbed:
    """The cluster of a benchmark run."""

    def __init__(self, cluster: Cluster, client: Client, folder: Path, profiles: Path | None) -> None:
        self.cluster = cluster
        self.client = client
        self._folder = folder
        self._profiles = profiles
        self._runs = count(1)

    def __repr__(self) -> str:
        return f"<Testbed {self.cluster!r}>"

    async def set_up(self, fleet: Fleet) -> None:
        """Clear the cluster, then create the fleet."""
        await to_thread.run_sync(self.cluster.clear)
        await to_thread.run_sync(self.cluster.create_nodes, fleet)

    @asynccontextmanager
    async def start(
        self, scenario: str, contender: Contender, fleet: Fleet, flags: Flags
    ) -> AsyncIterator[ContenderRun]:
        """Yield a ready contender on a cluster with only this fleet."""
        await self.set_up(fleet)
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
        """Create Workloads in this order, and return the time at which each request was sent."""
        sent: dict[str, float] = {}

        async def create(name: str) -> None:
            sent[name] = now()
            await self.client.create(WORKLOADS, workload(name, shared=shared))

        await self._for_each(create, names)
        return sent

    async def delete(self, names: Iterable[str]) -> dict[str, float]:
        """Request the deletion of Workloads, and return the time at which each request was sent."""
        sent: dict[str, float] = {}

        async def delete(name: str) -> None:
            sent[name] = now()
            await self.client.delete(f"{WORKLOADS}/{name}")

        await self._for_each(delete, names)
        return sent

    async def evict(self, pod: str) -> float:
        """Evict a Pod, as a drain does, and return the time at which the request was sent."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": WORKER_NAMESPACE},
        }
        sent = now()
        await self.client.create(f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods/{pod}/eviction", body)
        return sent

    @staticmethod
    async def _for_each(action: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
        """Run the action for each name concurrently, started in order."""
        remaining = iter(names)

        async def work() -> None:
            for name in remaining:
                await action(name)

        async with anyio.create_task_group() as tasks:
            for _ in range(SUBMITTERS):
                tasks.start_soon(work)
