"""What there is of each kind and in which state, kept up to date event by event for metrics.

The numbers change with the caches, so that a scrape adds nothing up: it costs the same whether ten claims or
ten thousand are placed. They are those of the caches of this process, warm on a standby too. Nothing is
decided from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from controller.api.dra import ResourceClaim
from controller.api.reasons import Phase, ReasonCode, code_of
from controller.api.status import waiting_since
from controller.api.workload import Workload
from controller.cluster.caches import Caches
from informers.api import ObjectKey, T
from ledger.state import ClaimLedger

C = TypeVar("C", bound=Hashable)

NEW = "New"
"""Phase and cause of a Workload that no status was written for yet."""

OTHER = "Other"
"""The cause where a status bears none of our codes, as an earlier controller's may."""

WAITING_CAUSES = (
    NEW,
    *(
        code.value
        for code in (
            ReasonCode.WAITING_FOR_CAPACITY,
            ReasonCode.NO_CAPACITY,
            ReasonCode.SCHEDULER_ERROR,
            ReasonCode.INVALID_CONFIGURATION,
            ReasonCode.POD_REJECTED,
            ReasonCode.WAITING_FOR_PREDECESSOR_CLAIM,
            ReasonCode.WAITING_FOR_PREDECESSOR_POD,
            ReasonCode.WAITING_FOR_POD_GONE,
            ReasonCode.REPLACING_WEDGED_CLAIM,
            ReasonCode.SEAT_LOST,
            ReasonCode.CREATED_CLAIM,
            ReasonCode.JOINED_CLAIM,
            ReasonCode.SHARED_ON_UNSCHEDULABLE,
        )
    ),
    OTHER,
)
"""What a worker in line may say of itself: the code of its `status.reason`."""

REASONS = (
    *(cause for cause in WAITING_CAUSES if cause not in {NEW, OTHER}),
    ReasonCode.CONTAINER_WAITING.value,
    OTHER,
)
"""What the `status.reason` of a Workload may begin with that has not ended."""

PHASES = (NEW, *(phase.value for phase in Phase))


@dataclass(frozen=True)
class GaugesStatistics:
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


class Gauges:
    """Counts what the caches hold. `seat_limit` is the effective one."""

    def __init__(self, seat_limit: int) -> None:
        self._seat_limit = seat_limit
        self._workloads = _Kept(_standing)
        self._ledgers = _Kept(_seating)
        self._claims = _Kept(_devices)
        # Workers in line: what they say, and since when they wait.
        self._waiting: dict[ObjectKey, tuple[str, datetime]] = {}
        self._causes: Counter[str] = Counter()

    def __repr__(self) -> str:
        workloads, ledgers = self._workloads.counts.total(), self._ledgers.counts.total()
        return f"<Census workloads={workloads} waiting={len(self._waiting)} ledgers={ledgers}>"

    def subscribe(self, caches: Caches) -> None:
        """Follow the caches; who waits is told by `waits` and `waits_no_more`."""
        caches.workloads.on_change(self._workloads.change, name="gauges", inline=True)
        caches.ledgers.on_change(self._ledgers.change, name="gauges", inline=True)
        caches.claims.on_change(self._claims.change, name="gauges", inline=True)

    def set_waiting(self, key: ObjectKey, workload: Workload) -> None:
        """This worker is in line, and says why in its status."""
        entry = (_cause(workload), waiting_since(workload))
        before = self._waiting.get(key)
        if before == entry:
            return
        if before is not None:
            self._causes[before[0]] -= 1
        self._waiting[key] = entry
        self._causes[entry[0]] += 1

    def clear_waiting(self, key: ObjectKey) -> None:
        """This worker left the line, if it was there."""
        before = self._waiting.pop(key, None)
        if before is not None:
            self._causes[before[0]] -= 1

    def statistics(self) -> GaugesStatistics:
        """Numbers of this moment; costs the number of classes, and a look at everybody who waits."""
        phases: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for standing, number in self._workloads.counts.items():
            phases[standing.phase] += number
            reasons[standing.reason] += number
        ledgers, claims, limit = self._ledgers.counts, self._claims.counts, self._seat_limit
        return GaugesStatistics(
            workloads={phase: phases[phase] for phase in PHASES},
            reasons={reason: reasons[reason] for reason in REASONS},
            waiting={cause: self._causes[cause] for cause in WAITING_CAUSES},
            waiting_since=min((since for _, since in self._waiting.values()), default=None),
            shareable_ledgers=_sum(ledgers, lambda ledger: not ledger.exclusive),
            exclusive_ledgers=_sum(ledgers, lambda ledger: ledger.exclusive),
            shareable_seats=_sum(ledgers, lambda ledger: 0 if ledger.exclusive else ledger.seats),
            exclusive_seats=_sum(ledgers, lambda ledger: ledger.seats if ledger.exclusive else 0),
            ledgers_at_limit=_sum(ledgers, lambda lg: not lg.exclusive and lg.seats >= limit),
            allocated_claims=_sum(claims, lambda devices: devices >= 0),
            unallocated_claims=claims[-1],
            allocated_devices=_sum(claims, lambda devices: max(devices, 0)),
        )


def _cause(workload: Workload) -> str:
    if not workload.status.phase:
        return NEW
    code = code_of(workload.status.reason)
    return code if code in WAITING_CAUSES else OTHER


class _Kept(Generic[T, C]):
    """Objects of one kind by a class of theirs. An inline handler of their cache.

    What an object was counted as is remembered: that of a deletion is its last state, which was never told.
    """

    def __init__(self, class_of: Callable[[T], C]) -> None:
        self._class_of = class_of
        self._classes: dict[ObjectKey, C] = {}
        self.counts: Counter[C] = Counter()

    def change(self, old: T | None, new: T | None) -> None:
        """Count the object as what it is now."""
        if new is not None:
            self._count(new)
        elif old is not None:
            self._forget(ObjectKey.of(old))

    def _count(self, obj: T) -> None:
        key = ObjectKey.of(obj)
        self._forget(key)
        self._classes[key] = counted = self._class_of(obj)
        self.counts[counted] += 1

    def _forget(self, key: ObjectKey) -> None:
        if key in self._classes:
            self.counts[self._classes.pop(key)] -= 1


class _Standing(NamedTuple):
    phase: str
    reason: str
    """The code; empty for none, and for a Workload that has ended."""


class _Seating(NamedTuple):
    seats: int
    exclusive: bool


def _standing(workload: Workload) -> _Standing:
    code = "" if workload.terminal else code_of(workload.status.reason)
    return _Standing(workload.status.phase or NEW, code if not code or code in REASONS else OTHER)


def _seating(ledger: ClaimLedger) -> _Seating:
    return _Seating(len(ledger.seats), any(seat.exclusive for seat in ledger.seats))


def _devices(claim: ResourceClaim) -> int:
    """Devices that the claim holds, -1 where it is not allocated; access as an administrator holds none."""
    if claim.status.allocation is None:
        return -1
    return sum(not result.admin_access for result in claim.status.allocation.devices.results)


def _sum(counts: Counter[C], what: Callable[[C], int]) -> int:
    return sum(what(counted) * number for counted, number in counts.items())
