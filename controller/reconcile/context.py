"""What every step works with, and the small questions that several steps ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.names import pod_name
from controller.api.pods import full_pod
from controller.api.reasons import ReasonCode, sentence
from controller.api.requests import PlacementRequests
from controller.api.status import StatusUpdate, status_patch
from controller.api.workload import Workload
from controller.cluster.caches import BY_WORKER, Caches
from controller.cluster.live_reader import LiveReader
from controller.cluster.object_writer import ObjectWriter
from controller.config.settings import Settings
from controller.observe.counters import Counters
from controller.observe.events import WorkloadEvents
from controller.queue.scheduling_queue import SchedulingQueue
from controller.queue.self_writes import SelfWriteFilter
from controller.reconcile.local_state import LocalState
from controller.runtime import logs
from informers.api import ObjectKey
from ledger.api import LedgerApi
from ledger.book import SeatBook
from ledger.names import ledger_name, own_claim_name
from ledger.state import ClaimLedger, Seat
from placement.fleet import Fleet

_log = logs.get_logger(__name__)

UNCHANGED = StatusUpdate()

MAX_NAME_ATTEMPTS = 16
"""Alternatives of an own claim's name that are tried; each is taken only by others' live workers."""


@dataclass(frozen=True)
class ReconcileContext:
    """The composed parts of one controller."""

    settings: Settings
    caches: Caches
    fleet: Fleet
    scheduling_queue: SchedulingQueue
    requests: PlacementRequests
    live: LiveReader
    writer: ObjectWriter
    ledgers: LedgerApi
    book: SeatBook
    events: WorkloadEvents
    counters: Counters
    local_state: LocalState
    now: Callable[[], datetime]
    requeue: Callable[[Workload], None]
    """Put a Workload back into the queue, behind older ones."""
    self_writes: SelfWriteFilter
    activate_next: Callable[[Workload], None]
    """A worker that was woken for a free seat did not take it: it goes to the next one."""

    def pod(self, workload: Workload) -> Pod | None:
        """The Pod that has this worker's name, whoever owns it."""
        return full_pod(
            self.caches.pods.store.get(ObjectKey(self.settings.namespace, pod_name(workload.name)))
        )

    def claim(self, name: str) -> ResourceClaim | None:
        """A managed claim of the workers' namespace."""
        return self.caches.claims.store.get(ObjectKey(self.settings.namespace, name))

    def ledger(self, claim: str) -> ClaimLedger | None:
        """A claim's ledger."""
        return self.caches.ledgers.store.get(ObjectKey(self.settings.namespace, ledger_name(claim)))

    def seats(self, workload: Workload) -> list[tuple[str, Seat]]:
        """Every seat of this Workload in ledgers of our naming, as (claim, seat), by claim name."""
        ledgers = self.caches.ledgers.store.by_index(BY_WORKER, workload.uid)
        found = [
            (ledger.claim_name, s)
            for ledger in ledgers
            if ledger.is_well_named
            for s in ledger.seats
            if s.workload_uid == workload.uid
        ]
        return sorted(found, key=lambda item: (item[0], item[1].workload))

    def booked_reason(self, workload: Workload, name: str) -> str:
        """What a worker says whose Pod is to come: the shapes of its own claim, or which one it joined."""
        claim = self.claim(name)
        if claim is None or name not in own_claim_names(workload):
            return sentence(ReasonCode.JOINED_CLAIM, name)
        shapes = [shape.name for request in claim.spec.devices.requests for shape in request.first_available]
        return sentence(ReasonCode.CREATED_CLAIM, "|".join(shapes))

    async def report(self, workload: Workload, outcome: StatusUpdate, *, force: bool = False) -> Workload:
        """Write the status if a write is due (or `force`d, as proof that nobody ended it). May conflict."""
        patch = status_patch(workload, outcome, self.now(), force=force)
        if patch is None:
            return workload
        written = await self.writer.write_status(workload, patch)
        self.self_writes.record_write(ObjectKey.of(written), written.metadata.resource_version)
        self.events.record_status_write(workload, written)
        self.counters.record_status_write(workload, written)
        _log.info(
            "Updated Workload status",
            workload=written,
            phase=written.status.phase,
            reason=written.status.reason,
            claim=written.status.claim_name,
            node=written.status.node_name,
        )
        return written

    async def fencing_write(
        self, workload: Workload, note: str, outcome: StatusUpdate = UNCHANGED
    ) -> Workload:
        """Write a status that surely differs: whatever was decided on an earlier version then conflicts.

        A write that changes nothing makes no new version, and fences nobody. So where the outcome changes
        nothing, condition `Placed` says the note, with the version that was read: no two are the same.
        """
        told = f"{note} (decided on version {workload.metadata.resource_version})"
        return await self.report(workload, replace(outcome, note=told), force=True)


def own_claim_names(workload: Workload) -> Iterator[str]:
    """The names under which this worker may have founded its own claim, first choice first."""
    return (own_claim_name(workload.name, workload.uid, n) for n in range(MAX_NAME_ATTEMPTS))
