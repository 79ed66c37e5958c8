"""The production controller as a process of a simulated cluster: start, graceful stop, and crash.

The program's own functions compose and run it. The simulation provides only the API client, randomness,
clock and identifiers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

import anyio

from controller.config.flags import Settings
from controller.config.nondeterminism import Nondeterminism
from controller.controller import Controller
from controller.main import operate
from controller.runtime.leadership import Leadership
from informers.api import Api
from informers.client.write_guard import GuardedApi
from informers.events.object import EVENTS
from simulation.apiserver.client import ApiClient, Latency, no_latency
from simulation.apiserver.interception import Interceptor, pass_through
from simulation.cluster.simulated_cluster import SimulatedCluster

SETTINGS = Settings(retry_interval_seconds=3600.0, leader_elect=False)
"""A retry interval of an hour, so that everything that happens sooner has an event as its cause."""


@dataclass(frozen=True)
class SimulatedProcess:
    """A running controller."""

    controller: Controller
    leadership: Leadership
    client: ApiClient
    _stop: anyio.Event
    _ended: anyio.Event
    _scope: anyio.CancelScope

    def __repr__(self) -> str:
        return f"<SimulatedProcess {self.client.identity} {self.controller!r}>"

    async def stop(self) -> None:
        """Stop the controller gracefully, as SIGTERM does; return when it has ended."""
        self._stop.set()
        await self._ended.wait()

    async def crash(self) -> None:
        """End the controller as SIGKILL does: no call of its clean-up code reaches the server."""
        self.client.crash()
        self._scope.cancel()
        await self._ended.wait()


def compose(
    api: Api, lease_api: Api, settings: Settings, nondeterminism: Nondeterminism
) -> tuple[Controller, Leadership]:
    """Compose the controller and its leadership as `controller.main` does."""
    leadership = Leadership(lease_api, settings, nondeterminism)
    controller = Controller(
        GuardedApi(api, leadership.may_write, unguarded=(EVENTS,)), settings, nondeterminism
    )
    return controller, leadership


@asynccontextmanager
async def simulated_controller(
    cluster: SimulatedCluster,
    settings: Settings = SETTINGS,
    *,
    identity: str = "controller",
    interceptor: Interceptor = pass_through,
    latency_seconds: Latency = no_latency,
    synced: bool = True,
    now: Callable[[], datetime] | None = None,
) -> AsyncIterator[SimulatedProcess]:
    """Run a controller for the duration of the block.

    With `synced`, the block starts when the caches are synced. At the end of the block a controller with a
    crashed client is cancelled; any other one stops gracefully. `now` overrides the cluster's wall clock.
    """
    client = cluster.client(identity, interceptor=interceptor, latency_seconds=latency_seconds)
    series = f"{len(cluster.clients) % 15 + 1:x}"
    nondeterminism = Nondeterminism(
        cluster.rng(f"process {identity}"), now or cluster.clock, cluster.identifiers(series)
    )
    settings = settings.model_copy(update={"pod_name": settings.pod_name or identity})
    controller, leadership = compose(client, client, settings, nondeterminism)
    stop, ended = anyio.Event(), anyio.Event()

    async def run(scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await operate(controller, leadership, stop)
        finally:
            ended.set()

    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()
        process = SimulatedProcess(controller, leadership, client, stop, ended, scope)
        tasks.start_soon(run, scope)
        if synced:
            await cluster.wait_until(lambda: controller.has_synced, f"{controller!r} is not synced")
        try:
            yield process
        except Exception as error:  # noqa: BLE001 - raised below, outside of a group
            failure = error
            scope.cancel()
        if client.crashed:
            scope.cancel()
        stop.set()
    if failure is not None:
        raise failure
