"""Compute the merge patch from the current status of a Workload to a StatusUpdate.

Pure. A write is due only if the phase, the reason, the assignment or the condition `Placed` changes. Names
and counts are included in a due write, so that an idle worker causes no writes (contract §5.11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import MINYEAR, UTC, datetime
from typing import Any

from controller.api.reasons import MESSAGE_MAX_CHARACTERS, PLACED_CONDITION, Phase, ReasonCode, truncate
from controller.api.workload import Workload, WorkloadCondition
from ledger.state import Seat


@dataclass(frozen=True)
class PlacedUpdate:
    """The new content of the condition `Placed`."""

    placed: bool
    code: ReasonCode
    message: str = ""

    @property
    def status(self) -> str:
        """The status of the condition."""
        return "True" if self.placed else "False"


@dataclass(frozen=True)
class Assignment:
    """The claim of a worker and the ID of its booking there."""

    claim: str
    assignment_id: str


UNASSIGNED = Assignment("", "")


@dataclass(frozen=True)
class PlacementDetails:
    """Details of a placement. A change here alone does not cause a write."""

    pod_name: str = ""
    node_name: str = ""
    device_count: int = 0
    memory_per_device: str = ""


@dataclass(frozen=True)
class StatusUpdate:
    """The result of a reconcile. `None` keeps that part of the status."""

    phase: Phase | None = None
    reason: str | None = None
    condition: PlacedUpdate | None = None
    assignment: Assignment | None = None
    details: PlacementDetails | None = None
    restarts: int | None = None
    """Number of Pods that had run and were lost."""
    note: str | None = None
    """A message for the condition `Placed` if nothing else changes. It does not cause a write."""


def status_patch(
    workload: Workload, update: StatusUpdate, now: datetime, *, force: bool = False
) -> dict[str, Any] | None:
    """Return the merge patch that applies the update, or `None` if no write is due.

    `force` returns a patch in any case. The API server rejects it unless the version that was read is
    current, so even an unchanged status proves that version.
    """
    due = _is_due(workload, update)
    if not due and not force:
        return None
    status: dict[str, Any] = {"observedGeneration": workload.metadata.generation}
    if update.phase is not None:
        status["phase"] = update.phase.value
    if update.reason is not None:
        status["reason"] = update.reason or None
    if update.assignment is not None:
        status["claimName"] = update.assignment.claim or None
        status["assignmentID"] = update.assignment.assignment_id or None
    if update.details is not None:
        status["podName"] = update.details.pod_name or None
        status["nodeName"] = update.details.node_name or None
        status["deviceCount"] = update.details.device_count or None
        status["memoryPerDevice"] = update.details.memory_per_device or None
    if update.restarts:
        status["restarts"] = update.restarts
    if update.note is not None and not due:
        status["conditions"] = _conditions(workload, _with_message(workload, update.note, now))
    elif update.condition is not None:
        status["conditions"] = _conditions(workload, _updated(workload, update.condition, now))
    return {
        "metadata": {"resourceVersion": workload.metadata.resource_version, "uid": workload.metadata.uid},
        "status": status,
    }


def _is_due(workload: Workload, update: StatusUpdate) -> bool:
    status = workload.status
    if update.phase is not None and update.phase.value != status.phase:
        return True
    if update.reason is not None and update.reason != status.reason:
        return True
    if update.assignment is not None and update.assignment != assignment_of(workload):
        return True
    if update.restarts is not None and update.restarts != status.restarts:
        return True
    if update.details is not None and status.node_name and not update.details.node_name:
        return True  # Other details can wait for the next write, but a stale node name misleads readers.
    if update.condition is None:
        return False
    current = workload.placed_condition
    wanted = (update.condition.status, update.condition.code.value)
    return current is None or (current.status, current.reason) != wanted


def assignment_of(workload: Workload) -> Assignment:
    """Return the assignment in the Workload's status."""
    return Assignment(workload.status.claim_name, workload.status.assignment_id)


def timestamp(now: datetime) -> str:
    """Format a time for the API: RFC 3339, UTC, whole seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    """Parse a time from the API. Text that `datetime` cannot represent, such as year 0, is its first year."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def waiting_since(workload: Workload) -> datetime:
    """Return the start of the wait: `Placed`'s last transition to False, else the creation time."""
    condition = workload.placed_condition
    if condition is not None and condition.status == "False" and condition.last_transition_time:
        since = parse_timestamp(condition.last_transition_time)
        if since.year > MINYEAR:
            return since
    return parse_timestamp(workload.metadata.creation_timestamp)


def _updated(workload: Workload, update: PlacedUpdate, now: datetime) -> WorkloadCondition:
    """Return the new condition `Placed`. Its transition time changes only with its status."""
    before = workload.placed_condition
    since = before.last_transition_time if before is not None and before.status == update.status else ""
    return WorkloadCondition(
        type=PLACED_CONDITION,
        status=update.status,
        reason=update.code.value,
        message=truncate(update.message, MESSAGE_MAX_CHARACTERS),
        last_transition_time=since or timestamp(now),
        observed_generation=workload.metadata.generation,
    )


def _with_message(workload: Workload, message: str, now: datetime) -> WorkloadCondition:
    """Return the condition `Placed` with another message. A missing condition becomes Unknown."""
    before = workload.placed_condition or WorkloadCondition(
        type=PLACED_CONDITION,
        status="Unknown",
        reason=Phase.PLACING.value,
        last_transition_time=timestamp(now),
    )
    return before.model_copy(update={"message": truncate(message, MESSAGE_MAX_CHARACTERS)})


def _conditions(workload: Workload, placed: WorkloadCondition) -> list[dict[str, Any]]:
    """Return all conditions, because a merge patch replaces the whole list."""
    others = [c for c in workload.status.conditions if c.type != PLACED_CONDITION]
    return [c.model_dump(by_alias=True, exclude_unset=True, exclude_none=True) for c in (*others, placed)]


def holders_of_unrecorded(
    claim: str, seats: Iterable[Seat], find: Callable[[str], Workload | None]
) -> Iterator[Workload]:
    """Yield the holders of unrecorded seats: Workloads whose status does not name their seat on `claim`.

    `find` returns the Workload of a name. A Workload with another UID than the seat's is skipped.
    """
    for seat in seats:
        workload = find(seat.workload)
        if workload is None or workload.uid != seat.workload_uid:
            continue
        if assignment_of(workload) != Assignment(claim, seat.assignment_id):
            yield workload
