"""From an outcome to the merge patch of `Workload.status`: what changes, and whether a write is due.

Pure. A write is due only when phase, reason, assignment or the verdict of `Placed` change; names and counts
ride along with it, so that a worker at rest costs nothing (contract §5.11).

Seats that their own Workload does not name in its status: its repair has to look at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controller.api.reasons import MESSAGE_MAX_CHARACTERS, PLACED_CONDITION, Phase, ReasonCode, truncate
from controller.api.workload import Workload, WorkloadCondition
from ledger.state import Seat


@dataclass(frozen=True)
class PlacedUpdate:
    """What condition `Placed` shall say."""

    placed: bool
    code: ReasonCode
    message: str = ""


@dataclass(frozen=True)
class Assignment:
    """The claim of a worker and the booking that seats it there."""

    claim: str
    assignment_id: str


UNASSIGNED = Assignment("", "")


@dataclass(frozen=True)
class PlacementDetails:
    """What rides along with a write that is due: where the worker is and what it occupies."""

    pod_name: str = ""
    node_name: str = ""
    device_count: int = 0
    memory_per_device: str = ""


@dataclass(frozen=True)
class StatusUpdate:
    """What a reconcile found. `None` leaves a part of the status as it is."""

    phase: Phase | None = None
    reason: str | None = None
    condition: PlacedUpdate | None = None
    assignment: Assignment | None = None
    details: PlacementDetails | None = None
    note: str | None = None
    """Another message for condition `Placed` where nothing else changes; never a reason to write."""


def status_patch(
    workload: Workload, outcome: StatusUpdate, now: datetime, *, force: bool = False
) -> dict[str, Any] | None:
    """The merge patch that leads from the status that was read to the outcome; `None` if nothing is due.

    A `force`d patch may change nothing: sent on the version that was read, it still proves that version.
    """
    due = _is_due(workload, outcome)
    if not due and not force:
        return None
    status: dict[str, Any] = {"observedGeneration": workload.metadata.generation}
    if outcome.phase is not None:
        status["phase"] = outcome.phase.value
    if outcome.reason is not None:
        status["reason"] = outcome.reason or None
    if outcome.assignment is not None:
        status["claimName"] = outcome.assignment.claim or None
        status["assignmentID"] = outcome.assignment.assignment_id or None
    if outcome.details is not None:
        status |= _facts(outcome.details)
    if outcome.note is not None and not due:
        status["conditions"] = _conditions(workload, _noted(workload, outcome.note, now))
    elif outcome.condition is not None:
        status["conditions"] = _conditions(workload, _judged(workload, outcome.condition, now))
    return {
        "metadata": {"resourceVersion": workload.metadata.resource_version, "uid": workload.metadata.uid},
        "status": status,
    }


def _is_due(workload: Workload, outcome: StatusUpdate) -> bool:
    status = workload.status
    if outcome.phase is not None and outcome.phase.value != status.phase:
        return True
    if outcome.reason is not None and outcome.reason != status.reason:
        return True
    if outcome.assignment is not None and outcome.assignment != assignment_of(workload):
        return True
    if outcome.details is not None and status.node_name and not outcome.details.node_name:
        return True  # the other facts can wait for the next write, but nobody should look for it there
    if outcome.condition is None:
        return False
    condition = workload.placed_condition
    wanted = (_truth(outcome.condition), outcome.condition.code.value)
    return condition is None or (condition.status, condition.reason) != wanted


def assignment_of(workload: Workload) -> Assignment:
    """The assignment that the status names."""
    return Assignment(workload.status.claim_name, workload.status.assignment_id)


def timestamp(now: datetime) -> str:
    """A time as API objects hold it: RFC 3339, UTC, whole seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    """Read a time of an API object, with or without a fraction. Raises `ValueError` for anything else."""
    return datetime.fromisoformat(text)


def waiting_since(workload: Workload) -> datetime:
    """From when on a wait counts: `Placed`'s last transition to False, or creation where there is none."""
    condition = workload.placed_condition
    since = workload.metadata.creation_timestamp
    if condition is not None and condition.status == "False" and condition.last_transition_time:
        since = condition.last_transition_time
    return parse_timestamp(since)


def _truth(verdict: PlacedUpdate) -> str:
    return "True" if verdict.placed else "False"


def _facts(facts: PlacementDetails) -> Mapping[str, Any]:
    return {
        "podName": facts.pod_name or None,
        "nodeName": facts.node_name or None,
        "deviceCount": facts.device_count or None,
        "memoryPerDevice": facts.memory_per_device or None,
    }


def _judged(workload: Workload, verdict: PlacedUpdate, now: datetime) -> WorkloadCondition:
    """Condition `Placed` by a verdict; its transition time moves only when its status flips."""
    before = workload.placed_condition
    unchanged = before is not None and before.status == _truth(verdict) and before.last_transition_time
    return WorkloadCondition(
        type=PLACED_CONDITION,
        status=_truth(verdict),
        reason=verdict.code.value,
        message=truncate(verdict.message, MESSAGE_MAX_CHARACTERS),
        last_transition_time=before.last_transition_time if before and unchanged else timestamp(now),
        observed_generation=workload.metadata.generation,
    )


def _noted(workload: Workload, note: str, now: datetime) -> WorkloadCondition:
    """Condition `Placed` as it stands, with another message; one that was never written is unknown."""
    before = workload.placed_condition or WorkloadCondition(
        type=PLACED_CONDITION,
        status="Unknown",
        reason=Phase.PLACING.value,
        last_transition_time=timestamp(now),
    )
    return before.model_copy(update={"message": truncate(note, MESSAGE_MAX_CHARACTERS)})


def _conditions(workload: Workload, placed: WorkloadCondition) -> list[dict[str, Any]]:
    """All conditions, since a merge patch replaces the whole list; the others go back as they were read."""
    others = [c for c in workload.status.conditions if c.type != PLACED_CONDITION]
    return [c.model_dump(by_alias=True, exclude_unset=True, exclude_none=True) for c in (*others, placed)]


def holders_of_unrecorded(
    claim: str, seats: Iterable[Seat], find: Callable[[str], Workload | None]
) -> Iterator[Workload]:
    """The Workloads that `seats` on `claim` are booked for and whose status names another seat or none.

    `find` gives the Workload of a name, if there is one; one of another UID than the seat's is left out.
    """
    for seat in seats:
        workload = find(seat.workload)
        if workload is None or workload.uid != seat.workload_uid:
            continue
        if assignment_of(workload) != Assignment(claim, seat.assignment_id):
            yield workload
