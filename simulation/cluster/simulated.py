"""A whole cluster on the running event loop: server, actors, fleet, clients, and waiting for them.

    async with SimulatedCluster(seed=7) as cluster:
        cluster.fleet.add_nodes(3)
        async with simulated_controller(cluster):
            cluster.workloads.submit(workload("trainer"))
            await cluster.settle()

The loop must be a virtual one for time to cost nothing; nothing here depends on that. All chance comes from
the seed, by one stream for each user of it, so that a draw more in one place moves no other.
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
"""Without a write for this long everything has come to rest: longer than any back-off of the scheduler."""

SETTLE_LIMIT_SECONDS = 900.0

LOOK_AGAIN_SECONDS = 0.1
"""How late `wait_until` may see what changed outside of the store."""

T = TypeVar("T")


class NotSettled(AssertionError):
    """Something that was waited for did not come in time. The message names it."""


@dataclass(frozen=True)
class AuditEntry:
    """A call that ended, and how."""

    seconds: float
    request: Request
    error: ApiError | None

    def __str__(self) -> str:
        outcome = type(self.error).__name__ if self.error else "ok"
        return f"{self.seconds:.3f} {self.request} {outcome}"


class SimulatedCluster(ControlPlane):
    """One cluster. Enter it to let its actors work."""

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
            # The block's own error goes on as it is, not in a group.
            await self._tasks.__aexit__(None, None, None)
            return False
        return await self._tasks.__aexit__(kind, error, trace)

    # Chance.

    def rng(self, name: str) -> Random:
        """The stream of randomness of that name."""
        return self.streams.stream(name)

    @staticmethod
    def identifiers(series: str) -> Callable[[], str]:
        """A source of UUIDs that count; `series`, a hexadecimal digit, tells them from those of others."""
        numbers = count(1)

        def live() -> str:
            number = next(numbers)
            return f"{number:08x}-{series}000-4000-8000-{number:012x}"

        return live

    # Clients.

    def client(
        self,
        identity: str,
        *,
        interceptor: Interceptor = pass_through,
        latency_seconds: Latency | None = no_latency,
    ) -> ApiClient:
        """A new client of the server; its calls are kept in `audit`."""
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
        """The calls that have ended, from number `since` of the audit on."""
        return [entry for entry in self.audit[since:] if client in {"", entry.request.client}]

    # Waiting.

    async def settle(
        self, *, quiet_seconds: float = QUIET_SECONDS, limit_seconds: float = SETTLE_LIMIT_SECONDS
    ) -> None:
        """Return when, from now on, nothing was written for `quiet_seconds` and no call is on its way."""
        began_seconds = anyio.current_time()
        while True:
            now = anyio.current_time()
            wait_seconds = max(began_seconds, self._changed_seconds) + quiet_seconds - now
            if wait_seconds <= 0:
                if not any(client.statistics().in_flight for client in self.clients if not client.crashed):
                    return
                wait_seconds = quiet_seconds
            if now - began_seconds > limit_seconds:
                raise NotSettled(f"{self!r} is still being written to after {limit_seconds:g} s")
            await anyio.sleep(wait_seconds)

    async def wait_until(
        self, observe: Callable[[], T | None], what: str, *, limit_seconds: float = 60.0
    ) -> T:
        """The first answer of `observe` that is neither None nor False, asked after each change at least."""
        with anyio.move_on_after(limit_seconds):
            while True:
                answer = observe()
                if answer is not None and answer is not False:
                    return answer
                self._changed = anyio.Event()
                with anyio.move_on_after(LOOK_AGAIN_SECONDS):
                    await self._changed.wait()
        raise NotSettled(f"{what}: not within {limit_seconds:g} s")

    def _on_change(self, _change: Change) -> None:
        self._changed_seconds = anyio.current_time()
        self._changed.set()

    def _on_call(self, request: Request, error: ApiError | None) -> None:
        self.audit.append(AuditEntry(anyio.current_time(), request, error))
