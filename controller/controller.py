"""One placement controller: caches, picture, queue, reconciler and workers, put together.

Everything that a run depends on is handed in (the API port, chance, wall clock, identifiers), so that the
same composition runs against a real server and in a simulation. The caches are kept warm also by a standby;
reconciles run only inside `lead`, and only once every cache has its first list.
"""

from __future__ import annotations

import anyio

from controller.api.requests import Requests, effective_seat_limit
from controller.cluster.caches import make_caches
from controller.cluster.claim_locks import SeatBookInTurn
from controller.cluster.fleet_updater import Picture
from controller.cluster.ledger_client import KubeLedgerApi
from controller.cluster.object_writer import Writer
from controller.config.nondeterminism import Chance
from controller.config.settings import Settings
from controller.observe.counters import Tally
from controller.observe.events import FLUSH_SECONDS, WorkloadEvents, make_recorder
from controller.observe.gauges import Census
from controller.queue.activation import HandOut
from controller.queue.scheduling_queue import WaitingLine
from controller.queue.triggers import Wakeups
from controller.reconcile.context import Tools
from controller.reconcile.local_state import Memory
from controller.reconcile.reconciler import RETRIED_QUIETLY, Reconciler
from controller.reconcile.sweep import Sweep
from controller.runtime import logs
from informers.api import Api, ObjectKey
from informers.backoff import RetryLimiter
from informers.queue.runner import ReconcileRunner
from informers.queue.workqueue import WorkQueue
from placement.fleet import Fleet

QUEUE_NAME = "workload"

RECONCILE_TIMEOUT_SECONDS = 60.0
"""A reconcile is cut off well below the two minutes after which a sweep may take its work for orphaned."""

SYNC_REPORT_SECONDS = 30.0
"""How often a start that waits for its caches says what is missing."""

DRAIN_SECONDS = 20.0
"""How long running reconciles may take to finish at a stop; the Deployment grants more than that."""

_log = logs.get_logger(__name__)


class Controller:
    """The controller of one workers' namespace."""

    def __init__(self, api: Api, settings: Settings, chance: Chance) -> None:
        self.caches = make_caches(api, settings.namespace, chance.rng)
        self.queue: WorkQueue[ObjectKey] = WorkQueue(QUEUE_NAME, RetryLimiter.with_defaults(chance.rng))
        self.line = WaitingLine()
        requests = Requests(settings.max_seats_per_claim)
        self.max_seats_per_claim = settings.max_seats_per_claim
        self.now = chance.now
        self.census = Census(effective_seat_limit(settings.max_seats_per_claim))
        self.tally = Tally(chance.now)
        fleet = Fleet(settings.device_driver)
        self.picture = Picture(self.caches, fleet, requests, settings.namespace)
        self.memory = Memory.empty(self.caches, settings.namespace, chance.now)
        hand_out = HandOut(self.caches, fleet, self.line, requests, self.memory.refused.of)
        self._wakeups = Wakeups(
            self.caches,
            self.queue,
            line=self.line,
            hand_out=hand_out,
            requests=requests,
            census=self.census,
            namespace=settings.namespace,
        )
        self.hand_offs = self._wakeups.hand_offs
        ledgers = KubeLedgerApi(api, self.caches, settings.namespace)
        self.book = SeatBookInTurn(ledgers, chance.new_id)
        self.recorder = make_recorder(api, settings, chance)
        tools = Tools(
            settings=settings,
            caches=self.caches,
            fleet=fleet,
            line=self.line,
            requests=requests,
            writer=Writer(api, self.caches),
            ledgers=ledgers,
            book=self.book,
            events=WorkloadEvents(self.recorder),
            tally=self.tally,
            memory=self.memory,
            now=chance.now,
            look_again=lambda workload: self._wakeups.wake_key(ObjectKey.of(workload)),
            declined=self._wakeups.declined,
            echoes=self._wakeups.echoes,
        )
        self.sweep = Sweep(tools, tools.look_again)
        self.runner: ReconcileRunner[ObjectKey] = ReconcileRunner(
            self.queue,
            Reconciler(tools),
            max_concurrent_reconciles=settings.max_concurrent_reconciles,
            timeout_seconds=RECONCILE_TIMEOUT_SECONDS,
            quiet=RETRIED_QUIETLY,
        )
        self._waiting_for_caches = anyio.CancelScope()
        # The picture first: whoever is woken must find the change in it.
        self.picture.connect()
        self.census.connect(self.caches)
        self._wakeups.connect(self.picture)

    def __repr__(self) -> str:
        return f"<Controller {self.queue!r} {self.line!r} synced={self.has_synced}>"

    @property
    def has_synced(self) -> bool:
        """Whether every cache has its first list."""
        return not self.missing()

    def missing(self) -> tuple[str, ...]:
        """Which caches are not synced yet, and why, in words for people."""
        return tuple(reason for informer in self.caches.all() for reason in informer.missing())

    async def watch(self) -> None:
        """Keep the caches up to date until cancelled."""
        async with anyio.create_task_group() as tasks:
            for informer in self.caches.all():
                tasks.start_soon(informer.run)
            tasks.start_soon(self.recorder.run)

    async def lead(self) -> None:
        """Reconcile until stopped; waits for the caches first, and says what it waits for."""
        with self._waiting_for_caches:
            await self._wait_for_caches()
        if self._waiting_for_caches.cancelled_caught:
            return
        _log.info("Started reconciling", workloads=len(self.caches.workloads.store), waiting=len(self.line))
        self.hand_offs.begin()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.sweep.run)
                await self.runner.run()
                tasks.cancel_scope.cancel()
        finally:
            self.hand_offs.end()

    async def stop(self) -> None:
        """Take nothing new, let what runs finish; `lead` returns then."""
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
                _log.warning("Waiting for the first lists", missing=list(missing))
