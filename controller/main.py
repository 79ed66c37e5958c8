"""The `open-rl-scheduler` program: connect, compose one controller, serve its endpoints, stop in order.

Shutdown order: running reconciles finish, the lease is released, watches end, endpoints close.
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

from controller.api.names import LEADER_LEASE
from controller.cluster.caches import freeze_when_synced
from controller.config.flag_parsing import find_command
from controller.config.flags import PROGRAM, Settings
from controller.config.nondeterminism import Nondeterminism
from controller.controller import Controller
from controller.metrics import api_server, placement, runtime
from controller.metrics.exposition import Metrics
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
    """Run the console script."""
    if command := find_command(sys.argv[1:]):
        sys.exit(command(sys.argv[2:]))
    status = run_command(
        sys.argv[1:], os.environ, run, check=_check_access, stdout=sys.stdout, stderr=sys.stderr
    )
    sys.exit(status)


def _check_access(settings: Settings) -> None:
    """Reject an unusable kubeconfig. Raises `ConfigurationError`."""
    choose_source(kubeconfig=settings.kubeconfig or None, context=settings.context or None)


async def run(settings: Settings) -> int:
    """Run a controller until a signal stops it. Raises the error that ends it otherwise."""
    agent = f"{PROGRAM}/{build_info().version}"
    to_cluster = partial(connect, kubeconfig=settings.kubeconfig or None, context=settings.context or None)
    async with (
        shutdown_signals() as stop,
        to_cluster(user_agent=agent) as api,
        # The lease has its own connections, so that neither watches nor writes can starve its renewal.
        to_cluster(user_agent=f"{agent}/leader-election", connections=2) as lease_api,
    ):
        _log.info("Selected API server", server=api.server)
        nondeterminism = Nondeterminism(
            SystemRandom(), now=lambda: datetime.now(UTC), new_id=lambda: str(uuid.uuid4())
        )
        leadership = Leadership(lease_api, settings, nondeterminism)
        # Events are harmless, and the last ones are sent after the lease was released.
        guarded = GuardedApi(api, leadership.may_write, unguarded=(EVENTS,))
        controller = Controller(guarded, settings, nondeterminism)
        metrics = controller_metrics(controller, leadership)
        metrics.add(lambda: api_server.request_metrics(api.server, api.statistics(), lease_api.statistics()))
        metrics.add(lambda: runtime.withheld_metrics(guarded.statistics()))
        async with _endpoints(controller, leadership, settings, metrics):
            await operate(controller, leadership, stop)
    return EXIT_OK


async def operate(controller: Controller, leadership: Leadership, stop: anyio.Event) -> None:
    """Watch, lead while this process is the leader, and stop in order once `stop` is set."""
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


def controller_metrics(controller: Controller, leadership: Leadership) -> Metrics:
    """Create a registry with everything that a controller measures, in production and in simulations."""
    metrics = Metrics()
    name = controller.queue.name
    metrics.add(
        lambda: placement.gauge_metrics(
            controller.gauges.statistics(),
            controller.fleet_updater.fleet.capacity(),
            max_seats_per_claim=controller.max_seats_per_claim,
            now=controller.now(),
        )
    )
    for source in (
        lambda: placement.counter_metrics(
            controller.counters.statistics(), controller.hand_offs.statistics()
        ),
        lambda: placement.ledger_metrics(controller.book.statistics()),
        lambda: placement.sweep_metrics(controller.sweep.statistics()),
        lambda: placement.event_metrics(controller.recorder.statistics()),
        lambda: runtime.reconcile_metrics(name, controller.runner.statistics()),
        lambda: runtime.work_queue_metrics(name, controller.queue.statistics()),
        lambda: api_server.informer_metrics([each.statistics() for each in controller.caches.all()]),
        lambda: runtime.leadership_metrics(LEADER_LEASE, leadership.statistics()),
    ):
        metrics.add(source)
    return metrics


@asynccontextmanager
async def _endpoints(
    controller: Controller, leadership: Leadership, settings: Settings, metrics: Metrics
) -> AsyncIterator[None]:
    """Serve probes and metrics and monitor the event loop while the block runs."""
    monitor = LoopMonitor()
    metrics.add(lambda: runtime.loop_metrics(monitor.lag_seconds()))
    metrics.add(lambda: runtime.build_metrics(build_info()))
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
