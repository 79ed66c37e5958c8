"""Counters of this process: status writes that succeeded, and repairs.

Like Events, they count results and never intentions. They start at zero with each process and stay at
zero on a standby.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from controller.api.reasons import Phase, ReasonCode, code_of
from controller.api.status import assignment_of, waiting_since
from controller.api.workload import Workload
from informers.histogram import Histogram, HistogramStatistics

WAIT_BUCKETS_SECONDS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 14400.0)

RESTORED = "restored"
"""The status was restored from the worker's Pod: nothing was placed."""

ASSIGNMENT_KINDS: Mapping[str, str] = {
    ReasonCode.CREATED_CLAIM.value: "dedicated",
    ReasonCode.JOINED_CLAIM.value: "shared",
    ReasonCode.SHARED_ON_UNSCHEDULABLE.value: "fallback",
}
"""How a worker got its claim, by the code of its `status.reason`."""

CLEARING_CODES = (
    ReasonCode.WAITING_FOR_CAPACITY,
    ReasonCode.REPLACING_WEDGED_CLAIM,
    ReasonCode.SEAT_LOST,
    ReasonCode.POD_REJECTED,
)
"""Why a worker that has not ended loses its claim and is placed again, by code."""

ENDING_REASONS = (
    Phase.SUCCEEDED.value,
    *(
        code.value
        for code in (
            ReasonCode.POD_FAILED,
            ReasonCode.PLACEMENT_TIMEOUT,
            ReasonCode.INVALID_SPEC,
            ReasonCode.INVALID_TEMPLATE,
            ReasonCode.POD_CONFLICT,
        )
    ),
)
"""How a worker ends: `Succeeded`, or the code with which it fails."""


class RepairKind(Enum):
    """What a repair corrected. Each follows live reads and is counted when done."""

    SEAT = "seat"
    """A seat that was missing or had another assignment ID was booked again."""
    SEAT_REFUSED = "seat_refused"
    """A seat could not be booked again: the worker moves."""
    OWNER = "owner"
    """A recreated ledger became the owner of its claim."""
    LABEL = "label"
    """The label by which the cache selects a claim was restored."""
    STATUS = "status"
    """A status was restored from the worker's live Pod."""
    POD = "pod"
    """A Pod on a claim that its Workload does not name was deleted."""
    STRAY = "stray"
    """A seat that its Workload's status does not name was released."""


@dataclass(frozen=True)
class CountersStatistics:
    """Counts since the start. Known label values are present from the start."""

    assignments_total: Mapping[str, int]
    """Assignments of workers to claims, by kind."""
    cleared_total: Mapping[str, int]
    """Assignments removed from workers that are placed again, by reason."""
    ended_total: Mapping[str, int]
    """Workloads that ended, by reason."""
    repairs_total: Mapping[RepairKind, int]
    wait_seconds: HistogramStatistics
    """From the start of a wait until the worker runs. A rebuilt Pod of a placed worker does not wait."""


class Counters:
    """Counts the effects of status writes. Waits are measured by the wall clock, `now`."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._assignments: Counter[str] = Counter()
        self._cleared: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._repairs = dict.fromkeys(RepairKind, 0)
        self._wait_seconds = Histogram(WAIT_BUCKETS_SECONDS)

    def record_status_write(self, before: Workload, after: Workload) -> None:
        """Count a status write that changed `before` into `after`."""
        code = code_of(after.status.reason)
        old, new = assignment_of(before), assignment_of(after)
        if new.claim and new != old:
            self._assignments[ASSIGNMENT_KINDS.get(code, RESTORED)] += 1
        elif old.claim and not new.claim:
            self._cleared[code] += 1
        if after.terminal and not before.terminal:
            self._ended[code or after.status.phase] += 1
        placed = before.placed_condition
        if after.status.phase == Phase.RUNNING.value != before.status.phase and not (
            placed is not None and placed.status == "True"
        ):
            waited = self._now() - waiting_since(before)
            self._wait_seconds.observe(max(0.0, waited.total_seconds()))

    def record_repair(self, kind: RepairKind) -> None:
        """Count a repair."""
        self._repairs[kind] += 1

    def statistics(self) -> CountersStatistics:
        """Return the counts since the start."""
        kinds = (*ASSIGNMENT_KINDS.values(), RESTORED)
        return CountersStatistics(
            assignments_total={kind: self._assignments[kind] for kind in kinds},
            cleared_total={code.value: 0 for code in CLEARING_CODES} | self._cleared,
            ended_total=dict.fromkeys(ENDING_REASONS, 0) | self._ended,
            repairs_total=dict(self._repairs),
            wait_seconds=self._wait_seconds.statistics(),
        )
