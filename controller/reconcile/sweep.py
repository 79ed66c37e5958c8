"""Contract §5.14: release what crashes, manual edits and removed finalizers left behind.

The sweep runs at the start and every ten minutes. An object is released only if the object with the same UID
still looks orphaned two minutes later, when any reconcile has timed out. Then live reads must agree. A ledger
that holds a seat of an existing Workload that has not ended is never swept: that Workload is reconciled
instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import anyio

from controller.api.dra import ResourceClaim
from controller.api.names import pod_name
from controller.api.pods import full_pod
from controller.api.status import holders_of_unrecorded
from controller.api.workload import Workload
from controller.cluster.caches import is_pod_of
from controller.reconcile.context import ReconcileContext
from controller.runtime import logs
from informers.api import ObjectKey
from informers.errors import ApiError
from ledger.api import LedgerError
from ledger.claim_names import is_claim_name
from ledger.state import CLAIM_LEDGERS_KIND, ClaimLedger, Seat, SeatRef

INTERVAL_SECONDS = 600.0
SUSPICION_SECONDS = 120.0

_log = logs.get_logger(__name__)


ORPHAN_KINDS = ("seat", "ledger", "claim")


@dataclass(frozen=True)
class Orphan:
    """A seat without its worker, a ledger without seats or claim, or a claim without its ledger."""

    kind: str
    claim: str
    target: SeatRef | str
    """The seat, or the UID of the ledger or claim."""


@dataclass(frozen=True)
class SweepStatistics:
    """Counts since the start, with every kind of orphan."""

    released_total: Mapping[str, int]
    """By kind of orphan."""
    failures_total: int
    """Releases that failed with an error; the next sweep tries them again."""
    suspects: int
    """Objects that looked orphaned in the last sweep."""


class Sweep:
    """Finds orphans, remembers when they first looked orphaned, and releases them."""

    def __init__(self, context: ReconcileContext, activate: Callable[[Workload], None]) -> None:
        self._context = context
        self._activate = activate
        self._suspects: dict[Orphan, float] = {}
        """Due times by the loop's clock: setting the wall clock back would delay them."""
        self._released_kinds = dict.fromkeys(ORPHAN_KINDS, 0)
        self._failures = 0

    def __repr__(self) -> str:
        return f"<Sweep suspects={len(self._suspects)} released={sum(self._released_kinds.values())}>"

    def statistics(self) -> SweepStatistics:
        """Return the counts since the start."""
        return SweepStatistics(dict(self._released_kinds), self._failures, len(self._suspects))

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            pause_seconds = await self.step()
            await anyio.sleep(pause_seconds)

    async def step(self) -> float:
        """Sweep once; returns the seconds until the next sweep."""
        now = anyio.current_time()
        self._suspects = {
            orphan: self._suspects.get(orphan, now + SUSPICION_SECONDS) for orphan in self._orphans()
        }
        self._activate_unrecorded()
        for orphan, due in tuple(self._suspects.items()):
            if now >= due:
                await self._release(orphan)
        if not self._suspects:
            return INTERVAL_SECONDS
        now = anyio.current_time()
        # Overdue suspects wait for a suspicion period.
        return min((due - now for due in self._suspects.values() if due > now), default=SUSPICION_SECONDS)

    def _orphans(self) -> Iterator[Orphan]:
        for ledger in self._ledgers():
            seats = [seat for seat in ledger.seats if self._is_orphan_seat(seat)]
            yield from (Orphan("seat", ledger.claim_name, seat.ref) for seat in seats)
            is_suspect = not ledger.seats or self._context.claim(ledger.claim_name) is None
            if (
                is_suspect
                and len(seats) == len(ledger.seats)
                and not self._context.ledgers.live_pods(ledger.claim_name)
            ):
                yield Orphan("ledger", ledger.claim_name, ledger.metadata.uid)
        for claim in self._context.caches.claims.store:
            if self._is_orphan_claim(claim):
                yield Orphan("claim", claim.metadata.name, claim.metadata.uid)

    def _ledgers(self) -> Iterator[ClaimLedger]:
        """Return the ledgers with our naming; any other one was created manually."""
        return (ledger for ledger in self._context.caches.ledgers.store if ledger.is_well_named)

    def _is_orphan_seat(self, seat: Seat) -> bool:
        workload = self._workload(seat.workload)
        if workload is not None and workload.uid == seat.workload_uid and not workload.terminal:
            return False
        key = ObjectKey(self._context.settings.namespace, pod_name(seat.workload))
        pod = full_pod(self._context.caches.pods.store.get(key))
        return pod is None or not is_pod_of(pod, seat.workload_uid) or pod.finished

    def _is_orphan_claim(self, claim: ResourceClaim) -> bool:
        name = claim.metadata.name
        had_ledger = any(owner.kind == CLAIM_LEDGERS_KIND for owner in claim.metadata.owner_references)
        if not is_claim_name(name) or not had_ledger or claim.deleting:
            return False
        return self._context.ledger(name) is None and not self._context.ledgers.live_pods(name)

    def _workload(self, name: str) -> Workload | None:
        key = ObjectKey(self._context.settings.namespace, name)
        return self._context.caches.workloads.store.get(key)

    def _activate_unrecorded(self) -> None:
        """Activate the Workloads that have a seat which their status does not name, for repair."""
        for ledger in self._ledgers():
            for workload in holders_of_unrecorded(ledger.claim_name, ledger.seats, self._workload):
                if not workload.terminal:
                    self._activate(workload)

    async def _release(self, orphan: Orphan) -> None:
        """Release one orphan if live reads agree. After an error the next sweep tries again."""
        try:
            if await self._release_verified(orphan):
                self._released_kinds[orphan.kind] += 1
                _log.info("Released orphan", kind=orphan.kind, claim=orphan.claim)
        except (ApiError, LedgerError) as error:
            self._failures += 1
            _log.warning("Failed to release orphan", kind=orphan.kind, claim=orphan.claim, err=error)

    async def _release_verified(self, orphan: Orphan) -> bool:
        context, claim, target = self._context, orphan.claim, orphan.target
        if isinstance(target, SeatRef):
            if not await self._is_gone(target):
                return False
            await context.book.release(claim, [target])
            return True
        if orphan.kind == "ledger":
            return await self._retire(claim, target)
        live = await context.live.claim(claim)
        if live is None or live.metadata.uid != target or await context.live.ledger_of(claim) is not None:
            return False
        await context.ledgers.delete_claim(claim, target)
        return True

    async def _is_gone(self, ref: SeatRef) -> bool:
        """Return whether live reads show that both the Workload of this UID and its Pod are gone or ended."""
        workload = await self._context.live.workload(ref.workload)
        if workload is not None and workload.uid == ref.workload_uid and not workload.terminal:
            return False
        pod = await self._context.live.pod_of(ref.workload)
        return pod is None or not is_pod_of(pod, ref.workload_uid) or pod.finished

    async def _retire(self, claim: str, uid: str) -> bool:
        """Retire a ledger if a live read shows this UID, and no seats, or no claim and only orphans."""
        ledger = await self._context.live.ledger_of(claim)
        if ledger is None or ledger.metadata.uid != uid:
            return False
        refs = [seat.ref for seat in ledger.seats]
        if refs:
            if await self._context.live.claim(ledger.claim_name) is not None:
                return False
            if not all([await self._is_gone(ref) for ref in refs]):
                return False
        await self._context.book.release(claim, refs)
        return True
