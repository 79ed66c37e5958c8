"""State that the reconcile steps share: the parts of one controller, and one Workload in one reconcile.

A step is a function of these two. It returns a `Result` to end the reconcile, or `None` to continue.
"""

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
from controller.config.flags import Settings
from controller.observe.counters import Counters
from controller.observe.events import WorkloadEvents
from controller.queue.refused_groups import RefusedGroups
from controller.queue.scheduling_queue import SchedulingQueue
from controller.queue.self_writes import SelfWriteFilter
from controller.reconcile.local_state import LocalState
from controller.runtime import logs
from informers.api import ObjectKey
from informers.queue.runner import Result
from ledger.api import LedgerApi
from ledger.booking import SeatBook
from ledger.claim_names import ledger_name, own_claim_name
from ledger.state import ClaimLedger, SeatRef
from placement.fleet import Fleet
from placement.types import PlacementRequest

_log = logs.get_logger(__name__)

UNCHANGED = StatusUpdate()

MAX_NAME_ATTEMPTS = 16
"""Names tried for a worker's own claim. A name is skipped only if live workers of others use it."""


class ContendedError(Exception):
    """Other writers changed what this reconcile relied on. The worker is retried with back-off."""


@dataclass
class Scope:
    """One Workload in one reconcile. Each step stores the Workload as last written."""

    workload: Workload
    pod: Pod | None
    """The Pod with this worker's name, or `None` once it is gone."""
    request: PlacementRequest | None = None
    """`None` if the spec of a placed worker is no longer valid."""
    committed: bool = False
    """Whether this reconcile wrote the assignment, which proves that the Workload has not ended."""


@dataclass(frozen=True)
class ReconcileContext:
    """The parts of one controller."""

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
    refused_groups: RefusedGroups
    now: Callable[[], datetime]
    requeue: Callable[[Workload], None]
    """Enqueue a Workload, behind older ones."""
    self_writes: SelfWriteFilter
    activate_next: Callable[[Workload], None]
    """Activate the next waiting worker after this one left a free seat unused."""

    @property
    def retry(self) -> Result:
        """A requeue after the retry interval."""
        return Result(requeue_after_seconds=self.settings.retry_interval_seconds)

    def pod(self, workload: Workload) -> Pod | None:
        """Return the cached Pod with this worker's name, whoever owns it."""
        return full_pod(
            self.caches.pods.store.get(ObjectKey(self.settings.namespace, pod_name(workload.name)))
        )

    def claim(self, name: str) -> ResourceClaim | None:
        """Return a cached managed claim."""
        return self.caches.claims.store.get(ObjectKey(self.settings.namespace, name))

    def ledger(self, claim: str) -> ClaimLedger | None:
        """Return the cached ledger of a claim."""
        return self.caches.ledgers.store.get(ObjectKey(self.settings.namespace, ledger_name(claim)))

    async def read_live(self, workload: Workload) -> Workload | None:
        """Read this Workload from the API server; `None` if it is gone, even if its name is in use again."""
        live = await self.live.workload(workload.name)
        return live if live is not None and live.uid == workload.uid else None

    def seats(self, workload: Workload) -> dict[str, list[SeatRef]]:
        """Return the cached seats of this Workload's UID by claim, ordered by claim name."""
        seats: dict[str, list[SeatRef]] = {}
        ledgers = self.caches.ledgers.store.by_index(BY_WORKER, workload.uid)
        for ledger in sorted(ledgers, key=lambda ledger: ledger.claim_name):
            refs = [seat.ref for seat in ledger.seats if seat.workload_uid == workload.uid]
            if ledger.is_well_named and refs:
                seats[ledger.claim_name] = refs
        return seats

    def booked_reason(self, workload: Workload, claim_name: str) -> str:
        """Return the status reason of a booked worker: its own claim's shapes, or the claim it joined."""
        claim = self.claim(claim_name)
        if claim is None or claim_name not in own_claim_names(workload):
            return sentence(ReasonCode.JOINED_CLAIM, claim_name)
        shapes = [shape.name for request in claim.spec.devices.requests for shape in request.first_available]
        return sentence(ReasonCode.CREATED_CLAIM, "|".join(shapes))

    async def report(self, workload: Workload, update: StatusUpdate, *, force: bool = False) -> Workload:
        """Write the status on the version that was read, if a write is due or `force` is set.

        Returns the Workload as written. Raises `Conflict`.
        """
        patch = status_patch(workload, update, self.now(), force=force)
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
        self, workload: Workload, note: str, update: StatusUpdate = UNCHANGED
    ) -> Workload:
        """Write a status that certainly differs, so that every write based on an older version conflicts.

        A no-op write creates no new version and therefore fences nothing. If the update changes nothing,
        condition `Placed` gets the note and the version that was read, which make its message unique.
        """
        unique_note = f"{note} (decided on version {workload.metadata.resource_version})"
        return await self.report(workload, replace(update, note=unique_note), force=True)


def own_claim_names(workload: Workload) -> Iterator[str]:
    """Return the names that this worker's own claim may have, in order of preference."""
    return (own_claim_name(workload.name, workload.uid, n) for n in range(MAX_NAME_ATTEMPTS))
