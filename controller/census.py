"""What there is of each kind and in which state, kept up to date event by event for metrics.

The numbers change with the caches, so that a scrape adds nothing up: it costs the same whether ten claims or
ten thousand are placed. They are those of the caches of this process, warm on a standby too. Nothing is
decided from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from controller.caches import Caches
from controller.objects import ResourceClaim
from controller.reasons import Code, Phase, code_of
from controller.status import waiting_since
from controller.workload import Workload
from informers.keys import ObjectKey
from ledger.state import ClaimLedger

NEW = "New"
"""Phase and cause of a Workload that no status was written for yet."""

OTHER = "Other"
"""The cause where a status bears none of our codes, as an earlier controller's may."""

WAITING_CAUSES = (
    NEW,
    *(
        code.value
        for code in (
            Code.WAITING_FOR_CAPACITY,
            Code.NO_CAPACITY,
            Code.SCHEDULER_ERROR,
            Code.INVALID_CONFIGURATION,
            Code.POD_REJECTED,
            Code.WAITING_FOR_PREDECESSOR_CLAIM,
            Code.WAITING_FOR_PREDECESSOR_POD,
            Code.WAITING_FOR_POD_GONE,
            Code.REPLACING_WEDGED_CLAIM,
            Code.SEAT_LOST,
            Code.CREATED_CLAIM,
            Code.JOINED_CLAIM,
            Code.SHARED_ON_UNSCHEDULABLE,
        )
    ),
    OTHER,
)
"""What a worker in line may say of itself: the code of its `status.reason`."""

REASONS = (
    *(cause for cause in WAITING_CAUSES if cause not in {NEW, OTHER}),
    Code.CONTAINER_WAITING.value,
    OTHER,
)
"""What the `status.reason` of a Workload may begin with that has not ended."""

PHASES = (NEW, *(phase.value for phase in Phase))


@dataclass(frozen=True)
class CensusStatistics:
    """Numbers of this moment; every phase and every cause is there."""

    workloads: Mapping[str, int]
    """By phase."""
    reasons: Mapping[str, int]
    """Those that have not ended and give a reason, by its code."""
    waiting: Mapping[str, int]
    """Workers that have not ended and have no bound Pod, by cause."""
    waiting_since: datetime | None
    """Since when the one waits that has waited longest; `None` where nobody does."""
    shareable_ledgers: int
    exclusive_ledgers: int
    """Those whose worker shares with nobody."""
    shareable_seats: int
    exclusive_seats: int
    ledgers_at_limit: int
    """Shareable ones with as many seats as the limit allows, or more."""
    allocated_claims: int
    unallocated_claims: int
    allocated_devices: int
    """Devices that the allocations of these claims name."""


@dataclass(frozen=True)
class _Ledger:
    seats: int
    exclusive: bool


class Census:
    """Counts what the caches hold. `seat_limit` is the effective one."""

    def __init__(self, seat_limit: int) -> None:
        self._seat_limit = seat_limit
        self._phases: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._causes: Counter[str] = Counter()
        self._waiting: dict[ObjectKey, tuple[str, datetime]] = {}
        self._ledgers: Counter[_Ledger] = Counter()
        self._claims: Counter[int] = Counter()
        """Claims by the devices that they hold; -1: not allocated."""

    def __repr__(self) -> str:
        workloads, ledgers = self._phases.total(), self._ledgers.total()
        return f"<Census workloads={workloads} waiting={len(self._waiting)} ledgers={ledgers}>"

    def connect(self, caches: Caches) -> None:
        """Follow the caches; who waits is told by `waits` and `waits_no_more`."""
        caches.workloads.add_handler(_Workloads(self._phases, self._reasons), inline=True)
        caches.ledgers.add_handler(_Ledgers(self._ledgers), inline=True)
        caches.claims.add_handler(_Claims(self._claims), inline=True)

    def waits(self, key: ObjectKey, workload: Workload) -> None:
        """This worker is in line, and says why in its status."""
        entry = (_cause(workload), waiting_since(workload))
        before = self._waiting.get(key)
        if before == entry:
            return
        if before is not None:
            self._causes[before[0]] -= 1
        self._waiting[key] = entry
        self._causes[entry[0]] += 1

    def waits_no_more(self, key: ObjectKey) -> None:
        """This worker left the line, if it was there."""
        before = self._waiting.pop(key, None)
        if before is not None:
            self._causes[before[0]] -= 1

    def statistics(self) -> CensusStatistics:
        """Numbers of this moment; only the longest wait is looked for, among those who wait."""
        shareable = {ledger: n for ledger, n in self._ledgers.items() if not ledger.exclusive}
        exclusive = {ledger: n for ledger, n in self._ledgers.items() if ledger.exclusive}
        return CensusStatistics(
            workloads={phase: self._phases[phase] for phase in PHASES},
            reasons={reason: self._reasons[reason] for reason in REASONS},
            waiting={cause: self._causes[cause] for cause in WAITING_CAUSES},
            waiting_since=min((since for _, since in self._waiting.values()), default=None),
            shareable_ledgers=sum(shareable.values()),
            exclusive_ledgers=sum(exclusive.values()),
            shareable_seats=sum(ledger.seats * n for ledger, n in shareable.items()),
            exclusive_seats=sum(ledger.seats * n for ledger, n in exclusive.items()),
            ledgers_at_limit=sum(n for ledger, n in shareable.items() if ledger.seats >= self._seat_limit),
            allocated_claims=sum(n for devices, n in self._claims.items() if devices >= 0),
            unallocated_claims=self._claims[-1],
            allocated_devices=sum(devices * n for devices, n in self._claims.items() if devices > 0),
        )


def _cause(workload: Workload) -> str:
    if not workload.status.phase:
        return NEW
    code = code_of(workload.status.reason)
    return code if code in WAITING_CAUSES else OTHER


class _Workloads:
    def __init__(self, phases: Counter[str], reasons: Counter[str]) -> None:
        self._phases = phases
        self._reasons = reasons

    def on_add(self, obj: Workload, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._count(obj, 1)

    def on_update(self, old: Workload, new: Workload) -> None:
        self._count(old, -1)
        self._count(new, 1)

    def on_delete(self, obj: Workload) -> None:
        self._count(obj, -1)

    def _count(self, workload: Workload, sign: int) -> None:
        self._phases[workload.status.phase or NEW] += sign
        code = code_of(workload.status.reason)
        if code and not workload.terminal:
            self._reasons[code if code in REASONS else OTHER] += sign


class _Ledgers:
    def __init__(self, ledgers: Counter[_Ledger]) -> None:
        self._ledgers = ledgers

    def on_add(self, obj: ClaimLedger, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._ledgers[_ledger(obj)] += 1

    def on_update(self, old: ClaimLedger, new: ClaimLedger) -> None:
        self.on_delete(old)
        self._ledgers[_ledger(new)] += 1

    def on_delete(self, obj: ClaimLedger) -> None:
        self._ledgers[_ledger(obj)] -= 1


class _Claims:
    def __init__(self, claims: Counter[int]) -> None:
        self._claims = claims

    def on_add(self, obj: ResourceClaim, initial: bool) -> None:  # noqa: ARG002 - part of the handler protocol
        self._claims[_devices(obj)] += 1

    def on_update(self, old: ResourceClaim, new: ResourceClaim) -> None:
        self.on_delete(old)
        self._claims[_devices(new)] += 1

    def on_delete(self, obj: ResourceClaim) -> None:
        self._claims[_devices(obj)] -= 1


def _ledger(ledger: ClaimLedger) -> _Ledger:
    return _Ledger(len(ledger.seats), any(seat.exclusive for seat in ledger.seats))


def _devices(claim: ResourceClaim) -> int:
    """Devices that the claim holds; access as an administrator holds none."""
    if claim.status.allocation is None:
        return -1
    return sum(not result.admin_access for result in claim.status.allocation.devices.results)
