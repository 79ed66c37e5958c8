"""Composition of one placement controller: caches, fleet, queue, reconciler and sweep.

Everything that a run depends on is passed in (API, randomness, wall clock, identifiers), so that the same
composition runs against a real server and in a simulation. A standby keeps its caches up to date too.
Reconciles run only inside `lead`, after every cache has its first list.
"""

from __future__ import annotations

import anyio

from controller.api.requests import PlacementRequests
from controller.cluster.caches import make_caches
from controller.cluster.claim_locks import ClaimLocks
from controller.cluster.fleet_updater import FleetUpdater
from controller.cluster.ledger_client import LedgerClient
from controller.cluster.live_reader import LiveReader
from controller.cluster.object_writer import ObjectWriter
from controller.config.flags import Settings
from controller.config.nondeterminism import Nondeterminism
from controller.observe.counters import Counters
from controller.observe.events import FLUSH_SECONDS, WorkloadEvents, make_recorder
from controller.observe.gauges import Gauges
from controller.queue.activation import ActivationPlanner
from controller.queue.refused_groups import RefusedGroups
from controller.queue.scheduling_queue import SchedulingQueue
from controller.queue.triggers import QueueTriggers
from controller.reconcile.context import ReconcileContext
from controller.reconcile.local_state import LocalState
from controller.reconcile.reconciler import RETRIED_QUIETLY, Reconciler
from controller.reconcile.sweep import Sweep
from controller.runtime import logs
from informers.api import Api, ObjectKey
from informers.backoff import RetryLimiter
from informers.queue.runner import ReconcileRunner
from informers.queue.workqueue import WorkQueue
from ledger.booking import SeatBook
from placement.fleet import Fleet

QUEUE_NAME = "workload"

RECONCILE_TIMEOUT_SECONDS = 60.0
"""Well below the two minutes after which a sweep may treat a reconcile's work as orphaned."""

SYNC_REPORT_SECONDS = 30.0
"""How often a start logs which caches it waits for."""

DRAIN_SECONDS = 20.0
"""How long running reconciles may take to finish on shutdown; less than the Pod's grace period."""

_log = logs.get_logger(__name__)


class Controller:
    """The controller of one workers' namespace."""

    def __init__(self, api: Api, settings: Settings, nondeterminism: Nondeterminism) -> None:
        self.caches = make_caches(api, settings.namespace, nondeterminism.rng)
        self.queue = WorkQueue[ObjectKey](QUEUE_NAME, RetryLimiter.with_defaults(nondeterminism.rng))
        self.scheduling_queue = SchedulingQueue()
        requests = PlacementRequests(settings.max_seats_per_claim, settings.device_driver)
        self.max_seats_per_claim = settings.max_seats_per_claim
        self.now = nondeterminism.now
        self.gauges = Gauges(requests.seat_limit)
        self.counters = Counters(nondeterminism.now)
        fleet = Fleet(settings.device_driver)
        self.fleet_updater = FleetUpdater(self.caches, fleet, requests, settings.namespace)
        self.local_state = LocalState.empty(self.caches, settings.namespace, nondeterminism.now)
        refusals = self.local_state.place_holds.refusals
        refused_groups = RefusedGroups(anyio.current_time, self._activate)
        planner = ActivationPlanner(
            self.caches, fleet, self.scheduling_queue, requests, refusals, refused_groups=refused_groups
        )
        self._triggers = QueueTriggers(
            self.caches,
            self.queue,
            scheduling_queue=self.scheduling_queue,
            activation_planner=planner,
            requests=requests,
            gauges=self.gauges,
            refused_groups=refused_groups,
            namespace=settings.namespace,
        )
        self.hand_offs = self._triggers.hand_offs
        live = LiveReader(api, self.caches, settings.namespace)
        ledgers = LedgerClient(api, self.caches, live, settings.namespace)
        self.claim_locks = ClaimLocks()
        self.book = SeatBook(ledgers, nondeterminism.new_id, self.claim_locks.hold)
        self.recorder = make_recorder(api, settings, nondeterminism)
        context = ReconcileContext(
            settings=settings,
            caches=self.caches,
            fleet=fleet,
            scheduling_queue=self.scheduling_queue,
            requests=requests,
            live=live,
            writer=ObjectWriter(api, self.caches, live),
            ledgers=ledgers,
            book=self.book,
            events=WorkloadEvents(self.recorder),
            counters=self.counters,
            local_state=self.local_state,
            refused_groups=refused_groups,
            now=nondeterminism.now,
            requeue=lambda workload: self._triggers.activate(ObjectKey.of(workload)),
            activate_next=self._triggers.activate_next,
            self_writes=self._triggers.self_writes,
        )
        self.sweep = Sweep(context, context.requeue)
        self.runner = self._make_runner(context)
        self._waiting_for_caches = anyio.CancelScope()
        # The fleet first: an activated worker must find the change in it.
        self.fleet_updater.subscribe()
        self.gauges.subscribe(self.caches)
        self._triggers.subscribe(self.fleet_updater)

    def _make_runner(self, context: ReconcileContext) -> ReconcileRunner[ObjectKey]:
        return ReconcileRunner[ObjectKey](
            self.queue,
            Reconciler(context),
            max_concurrent_reconciles=context.settings.max_concurrent_reconciles,
            timeout_seconds=RECONCILE_TIMEOUT_SECONDS,
            quiet=RETRIED_QUIETLY,
        )

    def _activate(self, key: ObjectKey) -> None:
        self._triggers.activate(key)

    def __repr__(self) -> str:
        return f"<Controller {self.queue!r} {self.scheduling_queue!r} synced={self.has_synced}>"

    @property
    def has_synced(self) -> bool:
        """Whether every cache has its first list."""
        return not self.missing()

    def missing(self) -> tuple[str, ...]:
        """Describe the caches that have not synced, and why."""
        return tuple(reason for informer in self.caches.all() for reason in informer.missing())

    async def watch(self) -> None:
        """Keep the caches up to date until cancelled."""
        async with anyio.create_task_group() as tasks:
            for informer in self.caches.all():
                tasks.start_soon(informer.run)
            tasks.start_soon(self.recorder.run)

    async def lead(self) -> None:
        """Wait for the caches, then reconcile until stopped."""
        with self._waiting_for_caches:
            await self._wait_for_caches()
        if self._waiting_for_caches.cancelled_caught:
            return
        _log.info(
            "Started reconciling",
            workloads=len(self.caches.workloads.store),
            waiting=len(self.scheduling_queue),
        )
        self.hand_offs.start()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.sweep.run)
                await self.runner.run()
                tasks.cancel_scope.cancel()
        finally:
            self.hand_offs.stop()

    async def stop(self) -> None:
        """Let running reconciles finish and start no others; `lead` then returns."""
        self._waiting_for_caches.cancel()
        finished = await self.runner.stop(DRAIN_SECONDS)
        await self.recorder.aclose(FLUSH_SECONDS)
        _log.info("Stopped reconciling", finished=finished)

    async def _wait_for_caches(self) -> None:
        while missing := self.missing():
            with anyio.move_on_after(SYNC_REPORT_SECONDS):
                for informer in self.caches.all():
                    await informer.wait_for_sync(SYNC_REPORT_SECONDS * 2)
            if missing := self.missing():
                _log.warning("Timed out waiting for the first lists", missing=list(missing))
