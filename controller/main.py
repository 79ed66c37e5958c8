"""The `open-rl-scheduler` program: connects, composes one controller, serves its probes, stops in order.

Order of a stop: the workers finish what runs, the lease is released, watches end, endpoints close.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from random import SystemRandom

import anyio

from controller.cluster.caches import freeze_when_synced
from controller.config.command_line import find_command
from controller.config.nondeterminism import Nondeterminism
from controller.config.settings import PROGRAM, Settings
from controller.controller import Controller
from controller.metrics.api_server import request_metrics
from controller.metrics.exposition import Metrics
from controller.metrics.program import controller_metrics
from controller.metrics.runtime import build_metrics, loop_metrics, withheld_metrics
from controller.runtime import logs
from controller.runtime.build_info import build_info
from controller.runtime.cli import EXIT_OK, run_command
from controller.runtime.health import LoopMonitor, health_application
from controller.runtime.http_server import serve
from controller.runtime.leadership import Leadership
from controller.runtime.signals import shutdown_signals
from informers.client.credentials import choose_source
from informers.client.transport import connect
from informers.client.write_guard import GuardedApi
from informers.events.object import EVENTS

_log = logs.get_logger(__name__)


def main() -> None:
    """Console script."""
    if command := find_command(sys.argv[1:]):
        sys.exit(command(sys.argv[2:]))
    status = run_command(
        sys.argv[1:], os.environ, run, check=_check_access, stdout=sys.stdout, stderr=sys.stderr
    )
    sys.exit(status)


def _check_access(settings: Settings) -> None:
    """Refuse a kubeconfig that cannot work. Raises `ConfigurationError`."""
    choose_source(kubeconfig=settings.kubeconfig or None, context=settings.context or None)


async def run(settings: Settings) -> int:
    """Run a controller until a signal asks it to stop. Raises what ended it otherwise."""
    agent = f"{PROGRAM}/{build_info().version}"
    to_cluster = partial(connect, kubeconfig=settings.kubeconfig or None, context=settings.context or None)
    async with (
        shutdown_signals() as stop,
        to_cluster(user_agent=agent) as api,
        # The lease has its own connections: neither watches nor a storm of writes can starve its renewal.
        to_cluster(user_agent=f"{agent}/leader-election", connections=2) as lease_api,
    ):
        _log.info("Connecting", server=api.server)
        nondeterminism = Nondeterminism(SystemRandom(), _utc_now, _new_id)
        leadership = Leadership(lease_api, settings, nondeterminism)
        # Events harm nobody, and the last ones are told after the lease was given back.
        guarded = GuardedApi(api, leadership.may_write, unguarded=(EVENTS,))
        controller = Controller(guarded, settings, nondeterminism)
        metrics = controller_metrics(controller, leadership)
        metrics.add(request_metrics(api.server, [api.statistics, lease_api.statistics]))
        metrics.add(withheld_metrics(guarded.statistics))
        async with _endpoints(controller, leadership, settings, metrics):
            await operate(controller, leadership, stop)
    return EXIT_OK


async def operate(controller: Controller, leadership: Leadership, stop: anyio.Event) -> None:
    """Watch, lead when it is our turn, and stop in order once `stop` is set."""
    async with anyio.create_task_group() as watching:
        watching.start_soon(controller.watch)
        async with anyio.create_task_group() as leading:
            leading.start_soon(leadership.run, controller.lead)
            await stop.wait()
            if leadership.leading:
                await controller.stop()
            else:
                leading.cancel_scope.cancel()
        watching.cancel_scope.cancel()


@asynccontextmanager
async def _endpoints(
    controller: Controller, leadership: Leadership, settings: Settings, metrics: Metrics
) -> AsyncIterator[None]:
    """Serve probes and metrics, and look after the process, while the block runs."""
    monitor = LoopMonitor()
    metrics.add(loop_metrics(monitor.statistics))
    metrics.add(build_metrics(build_info()))
    health = health_application(
        liveness={
            "event-loop": monitor.check,
            "leader-election": leadership.check,
            "caches": lambda: "; ".join(controller.caches.stuck()) or None,
        },
        readiness={"caches": lambda: "; ".join(controller.missing()) or None},
    )
    async with (
        serve(health, settings, "health_probe_bind_address"),
        serve(metrics.application(), settings, "metrics_bind_address"),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(monitor.run)
        tasks.start_soon(freeze_when_synced, controller.caches)
        yield
        tasks.cancel_scope.cancel()


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return str(uuid.uuid4())
