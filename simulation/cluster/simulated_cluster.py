"""A complete cluster on the running event loop: server, actors, nodes and clients.

    async with SimulatedCluster(seed=7) as cluster:
        cluster.fleet.add_nodes(3)
        async with simulated_controller(cluster):
            cluster.workloads.submit(workload("trainer"))
            await cluster.settle()

On a virtual loop, time costs nothing; the cluster works on any loop. All randomness comes from the seed, in
one stream per consumer, so an extra draw in one place changes no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from random import Random
from types import TracebackType
from typing import Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from informers.errors import ApiError
from simulation.actors.base import Delays
from simulation.apiserver.client import ApiClient, Latency, no_latency
from simulation.apiserver.interception import Interceptor, Request, pass_through
from simulation.apiserver.store import Change
from simulation.cluster.control_plane import ControlPlane
from simulation.cluster.workloads import WorkloadClient
from simulation.engine.wall_clock import EPOCH, WallClock

WORKER_NAMESPACE = "openrl-system"
CONTROLLER_NAMESPACE = "open-rl-scheduler"

QUIET_SECONDS = 15.0
"""The cluster is at rest after this long without a write: longer than any back-off of the scheduler."""

SETTLE_LIMIT_SECONDS = 900.0

POLL_SECONDS = 0.1
"""How often `wait_until` polls, for changes outside of the store."""

T = TypeVar("T")


class NotSettled(AssertionError):
    """An awaited condition was not met in time. The message names it."""


@dataclass(frozen=True)
class AuditEntry:
    """A call that ended, and its outcome."""

    seconds: float
    request: Request
    error: ApiError | None

    def __str__(self) -> str:
        outcome = type(self.error).__name__ if self.error else "ok"
        return f"{self.seconds:.3f} {self.request} {outcome}"


class SimulatedCluster(ControlPlane):
    """One cluster. Its actors work inside `async with`."""

    def __init__(
        self,
        *,
        seed: int = 0,
        delays: Delays | None = None,
        start: datetime = EPOCH,
        namespaces: tuple[str, ...] = ("default", WORKER_NAMESPACE, CONTROLLER_NAMESPACE),
    ) -> None:
        self.clock = WallClock(start)
        super().__init__(
            seed=seed,
            now=self.clock,
            new_uid=self.identifiers("0"),
            namespaces=namespaces,
            delays=delays or Delays(),
        )
        self.workloads = WorkloadClient(self.server, WORKER_NAMESPACE)
        self.audit: list[AuditEntry] = []
        self.clients: list[ApiClient] = []
        self._changed = anyio.Event()
        self._changed_seconds = anyio.current_time()
        self._tasks: TaskGroup | None = None
        self.server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<SimulatedCluster seed={self.streams.seed} {self.server!r} {self.event_queue!r}>"

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self.event_queue.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._tasks is None:
            return None
        self._tasks.cancel_scope.cancel()
        if isinstance(error, Exception):
            # The block's own error propagates outside of a group.
            await self._tasks.__aexit__(None, None, None)
            return False
        return await self._tasks.__aexit__(kind, error, trace)

    # Randomness.

    def rng(self, name: str) -> Random:
        """Return the random stream of that name."""
        return self.streams.get(name)

    @staticmethod
    def identifiers(series: str) -> Callable[[], str]:
        """Return a source of sequential UUIDs; `series`, a hexadecimal digit, distinguishes the sources."""
        numbers = count(1)

        def new_identifier() -> str:
            number = next(numbers)
            return f"{number:08x}-{series}000-4000-8000-{number:012x}"

        return new_identifier

    # Clients.

    def client(
        self,
        identity: str,
        *,
        interceptor: Interceptor = pass_through,
        latency_seconds: Latency | None = no_latency,
    ) -> ApiClient:
        """Create a client of the server; `audit` keeps its calls."""
        client = ApiClient(
            self.server,
            self.watches,
            identity,
            interceptor=interceptor,
            latency_seconds=latency_seconds,
            observe=self._on_call,
        )
        self.clients.append(client)
        return client

    def calls(self, *, client: str = "", since: int = 0) -> list[AuditEntry]:
        """Return the calls that have ended, starting at index `since` of the audit."""
        return [entry for entry in self.audit[since:] if client in {"", entry.request.client}]

    # Waiting.

    async def settle(
        self, *, quiet_seconds: float = QUIET_SECONDS, limit_seconds: float = SETTLE_LIMIT_SECONDS
    ) -> None:
        """Wait until no write happened for `quiet_seconds` and no call is in flight."""
        began_seconds = anyio.current_time()
        while True:
            now = anyio.current_time()
            wait_seconds = max(began_seconds, self._changed_seconds) + quiet_seconds - now
            if wait_seconds <= 0:
                if not any(client.statistics().in_flight for client in self.clients if not client.crashed):
                    return
                wait_seconds = quiet_seconds
            if now - began_seconds > limit_seconds:
                raise NotSettled(f"{self!r} still receives writes after {limit_seconds:g} s")
            await anyio.sleep(wait_seconds)

    async def wait_until(
        self, observe: Callable[[], T | None], what: str, *, limit_seconds: float = 60.0
    ) -> T:
        """Call `observe` after each change; return its first result that is neither None nor False."""
        with anyio.move_on_after(limit_seconds):
            while True:
                answer = observe()
                if answer is not None and answer is not False:
                    return answer
                self._changed = anyio.Event()
                with anyio.move_on_after(POLL_SECONDS):
                    await self._changed.wait()
        raise NotSettled(f"{what} after {limit_seconds:g} s")

    def _on_change(self, _change: Change) -> None:
        self._changed_seconds = anyio.current_time()
        self._changed.set()

    def _on_call(self, request: Request, error: ApiError | None) -> None:
        self.audit.append(AuditEntry(anyio.current_time(), request, error))
