"""What every step works with, and the small questions that several steps ask of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from controller.caches import BY_WORKER, Caches
from controller.line import WaitingLine
from controller.names import pod_name
from controller.objects import Pod, ResourceClaim
from controller.settings import Settings
from controller.status import Outcome, status_patch
from controller.workload import Workload
from controller.writer import Writer
from informers.keys import ObjectKey
from ledger.api import LedgerApi
from ledger.book import SeatBook
from ledger.names import founding_claim_name, ledger_name
from ledger.state import ClaimLedger, Seat
from placement.fleet import Fleet

MAX_NAME_ATTEMPTS = 16
"""Alternatives of an own claim's name that are tried; each is taken only by others' live workers."""


@dataclass(frozen=True)
class Tools:
    """The composed parts of one controller."""

    settings: Settings
    caches: Caches
    fleet: Fleet
    line: WaitingLine
    writer: Writer
    ledgers: LedgerApi
    book: SeatBook
    now: Callable[[], datetime]
    look_again: Callable[[Workload], None]
    """Put a Workload back into the queue, behind older ones."""

    def pod(self, workload: Workload) -> Pod | None:
        """The Pod that has this worker's name, whoever owns it."""
        return self.caches.pods.store.get(ObjectKey(self.settings.namespace, pod_name(workload.name)))

    def claim(self, name: str) -> ResourceClaim | None:
        """A managed claim of the workers' namespace."""
        return self.caches.claims.store.get(ObjectKey(self.settings.namespace, name))

    def ledger(self, claim: str) -> ClaimLedger | None:
        """A claim's ledger."""
        return self.caches.ledgers.store.get(ObjectKey(self.settings.namespace, ledger_name(claim)))

    async def fresh_ledger(self, claim: str) -> ClaimLedger | None:
        """A claim's ledger, read past the cache."""
        return await self.ledgers.read(ledger_name(claim))

    def seats(self, workload: Workload) -> list[tuple[str, Seat]]:
        """Every seat of this Workload, as (claim, seat), by claim name."""
        ledgers = self.caches.ledgers.store.by_index(BY_WORKER, workload.uid)
        found = [
            (ledger.claim_name, s)
            for ledger in ledgers
            for s in ledger.seats
            if s.workload_uid == workload.uid
        ]
        return sorted(found, key=lambda item: (item[0], item[1].workload))

    async def report(self, workload: Workload, outcome: Outcome, *, force: bool = False) -> Workload:
        """Write the status if a write is due (or `force`d, as proof that nobody ended it). May conflict."""
        patch = status_patch(workload, outcome, self.now(), force=force)
        return workload if patch is None else await self.writer.write_status(workload, patch)


def own_claim_names(workload: Workload) -> tuple[str, ...]:
    """The names under which this worker may have founded its own claim."""
    return tuple(founding_claim_name(workload.name, workload.uid, n) for n in range(MAX_NAME_ATTEMPTS))
