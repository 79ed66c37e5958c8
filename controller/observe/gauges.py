"""Gauges: numbers of Workloads, ledgers, seats and claims by state, for metrics only.

They are updated with the caches, event by event. A scrape therefore costs the same for ten claims as for ten
thousand. A standby's gauges are up to date too.
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
"""Phase and cause of a Workload without a status."""

OTHER = "Other"
"""Cause of a status without one of our codes, perhaps written by an earlier controller."""

WAITING_CAUSES = (
    NEW,
    *(
        code.value
        for code in (
            ReasonCode.WAITING_FOR_CAPACITY,
            ReasonCode.NO_CAPACITY,
            ReasonCode.SCHEDULER_ERROR,
            ReasonCode.WAITING_FOR_SCHEDULER,
            ReasonCode.WAITING_FOR_GATE,
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
"""Possible causes of a wait: the code of `status.reason`."""

REASONS = (
    *(cause for cause in WAITING_CAUSES if cause not in {NEW, OTHER}),
    ReasonCode.CONTAINER_WAITING.value,
    OTHER,
)
"""Possible codes in the `status.reason` of a Workload that has not ended."""

PHASES = (NEW, *(phase.value for phase in Phase))


@dataclass(frozen=True)
class GaugesStatistics:
    """Current numbers. Every phase, reason and cause is present."""

    workloads: Mapping[str, int]
    """By phase."""
    reasons: Mapping[str, int]
    """Workloads that have not ended and have a reason, by its code."""
    waiting: Mapping[str, int]
    """Workers that have not ended and have no bound Pod, by cause."""
    waiting_since: datetime | None
    """Start of the longest wait."""
    shareable_ledgers: int
    exclusive_ledgers: int
    shareable_seats: int
    exclusive_seats: int
    ledgers_at_limit: int
    """Shareable ledgers with at least as many seats as the limit."""
    allocated_claims: int
    unallocated_claims: int
    allocated_devices: int
    """Devices in the allocations of these claims."""


class Gauges:
    """Counts cached objects by state. `seat_limit` is the effective limit."""

    def __init__(self, seat_limit: int) -> None:
        self._seat_limit = seat_limit
        self._workloads = _StateCounter(_workload_state)
        self._ledgers = _StateCounter(_ledger_state)
        self._claims = _StateCounter(_device_count)
        # Cause and start of each queued worker's wait.
        self._waiting: dict[ObjectKey, tuple[str, datetime]] = {}
        self._causes: Counter[str] = Counter()

    def subscribe(self, caches: Caches) -> None:
        """Subscribe to the caches. Waiting workers are set through `set_waiting` and `clear_waiting`."""
        caches.workloads.on_change(self._workloads.update, name="gauges", inline=True)
        caches.ledgers.on_change(self._ledgers.update, name="gauges", inline=True)
        caches.claims.on_change(self._claims.update, name="gauges", inline=True)

    def set_waiting(self, key: ObjectKey, workload: Workload) -> None:
        """Count a queued worker under the cause in its status."""
        entry = (_cause(workload), waiting_since(workload))
        if self._waiting.get(key) != entry:
            self.clear_waiting(key)
            self._waiting[key] = entry
            self._causes[entry[0]] += 1

    def clear_waiting(self, key: ObjectKey) -> None:
        """Stop counting a worker that has left the queue."""
        entry = self._waiting.pop(key, None)
        if entry is not None:
            self._causes[entry[0]] -= 1

    def statistics(self) -> GaugesStatistics:
        """Return the current numbers. The cost grows with the states and the waiting workers only."""
        phases: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for state, number in self._workloads.counts.items():
            phases[state.phase] += number
            reasons[state.reason] += number
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
            ledgers_at_limit=_sum(ledgers, lambda ledger: not ledger.exclusive and ledger.seats >= limit),
            allocated_claims=_sum(claims, lambda devices: devices >= 0),
            unallocated_claims=claims[-1],
            allocated_devices=_sum(claims, lambda devices: max(devices, 0)),
        )


class _StateCounter(Generic[T, C]):
    """Number of objects of one kind in each state.

    The counted state is remembered per object: a deletion reports the last state, which may never have been
    counted.
    """

    def __init__(self, state_of: Callable[[T], C]) -> None:
        self._state_of = state_of
        self._states: dict[ObjectKey, C] = {}
        self.counts: Counter[C] = Counter()

    def update(self, old: T | None, new: T | None) -> None:
        """Handle a change."""
        obj = old if new is None else new
        if obj is None:
            return
        key = ObjectKey.of(obj)
        if key in self._states:
            self.counts[self._states.pop(key)] -= 1
        if new is not None:
            self._states[key] = state = self._state_of(new)
            self.counts[state] += 1


class _WorkloadState(NamedTuple):
    phase: str
    reason: str
    """The code; empty for none, and for a Workload that has ended."""


class _LedgerState(NamedTuple):
    seats: int
    exclusive: bool


def _workload_state(workload: Workload) -> _WorkloadState:
    code = "" if workload.terminal else code_of(workload.status.reason)
    return _WorkloadState(workload.status.phase or NEW, code if not code or code in REASONS else OTHER)


def _ledger_state(ledger: ClaimLedger) -> _LedgerState:
    return _LedgerState(len(ledger.seats), any(seat.exclusive for seat in ledger.seats))


def _device_count(claim: ResourceClaim) -> int:
    """Return the devices that a claim holds, -1 if unallocated. Administrative access holds none."""
    if claim.status.allocation is None:
        return -1
    return sum(not result.admin_access for result in claim.status.allocation.devices.results)


def _cause(workload: Workload) -> str:
    if not workload.status.phase:
        return NEW
    code = code_of(workload.status.reason)
    return code if code in WAITING_CAUSES else OTHER


def _sum(counts: Counter[C], value: Callable[[C], int]) -> int:
    return sum(value(state) * number for state, number in counts.items())
