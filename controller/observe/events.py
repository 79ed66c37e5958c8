"""Kubernetes Events about Workloads: one table of reasons, and the status changes that cause each.

An Event follows from a status write that succeeded. It reports a change, never an intention, and never that a
state continues. Everything an Event reports is therefore also in the status, which does not expire. The one
exceptions are an invalid Workload whose status cannot be decoded or written, and a refused write that the
status cannot report. Event
reasons are the codes of `status.reason`. A repeated Event shows the note of the first one
(`informers.events.recorder`); `distinct` separates Events that must not be merged.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from controller.api.dra import CLAIMS
from controller.api.names import pod_name
from controller.api.pods import PODS
from controller.api.reasons import Phase, ReasonCode
from controller.api.workload import WORKLOADS, Workload
from controller.config.flags import PROGRAM, Settings
from controller.config.nondeterminism import Nondeterminism
from informers.api import Api, UnreadableObject
from informers.events.object import CODE_CHARACTERS_MAX, EventType, Reference
from informers.events.recorder import EventRecorder

REPORTING_CONTROLLER = "openrl.io/open-rl-scheduler"

FLUSH_SECONDS = 3.0
"""How long shutdown may wait for Events; with `DRAIN_SECONDS` it is less than the Pod's grace period."""

SUCCEEDED = Phase.SUCCEEDED.value
"""The only reason that is not a code: a worker that succeeded has no `status.reason`."""


@dataclass(frozen=True)
class EventDefinition:
    """How an Event with one reason is written."""

    type: EventType
    action: str
    """What the controller did or tried, in UpperCamelCase of at most 128 characters."""
    related: Callable[[Workload], Reference | None] = lambda _: None
    note: Callable[[Workload, str], str] = lambda _, detail: detail
    """Makes the note from the Workload and the text after the code in `status.reason`."""


@dataclass(frozen=True)
class EventData:
    """One Event, without the Workload that it is about."""

    type: EventType
    reason: str
    action: str
    note: str
    related: Reference | None = None
    distinct: str = ""


def _pod(workload: Workload) -> Reference:
    name = workload.status.pod_name or pod_name(workload.name)
    return Reference(PODS.api_version, PODS.kind, name, workload.metadata.namespace)


def _claim(workload: Workload) -> Reference | None:
    name = workload.status.claim_name
    return Reference(CLAIMS.api_version, CLAIMS.kind, name, workload.metadata.namespace) if name else None


def _placed_note(workload: Workload, _: str) -> str:
    status = workload.status
    devices = f", devices: {status.device_count}" if status.device_count else ""
    return f"Running on node {status.node_name or 'unknown'} with claim {status.claim_name}{devices}"


def _moved_note(workload: Workload, _: str) -> str:
    claim = workload.status.claim_name
    return f"Moved to claim {claim} because kube-scheduler could not allocate the previous claim"


_NORMAL, _WARNING = EventType.NORMAL, EventType.WARNING

EVENT_KINDS: Mapping[str, EventDefinition] = MappingProxyType(
    {
        # Progress.
        ReasonCode.CREATED_CLAIM.value: EventDefinition(
            _NORMAL, "Seating", _claim, lambda w, detail: f"Created claim {w.status.claim_name} for {detail}"
        ),
        ReasonCode.JOINED_CLAIM.value: EventDefinition(
            _NORMAL, "Seating", _claim, lambda w, _: f"Joined claim {w.status.claim_name}"
        ),
        ReasonCode.SHARED_ON_UNSCHEDULABLE.value: EventDefinition(_NORMAL, "Moving", _claim, _moved_note),
        ReasonCode.PLACED.value: EventDefinition(_NORMAL, "Starting", _pod, _placed_note),
        SUCCEEDED: EventDefinition(_NORMAL, "Running", _pod, lambda *_: "The Pod succeeded"),
        # Waits that end without intervention.
        ReasonCode.WAITING_FOR_PREDECESSOR_CLAIM.value: EventDefinition(_NORMAL, "Seating"),
        ReasonCode.WAITING_FOR_PREDECESSOR_POD.value: EventDefinition(_NORMAL, "CreatingPod", _pod),
        ReasonCode.WAITING_FOR_POD_GONE.value: EventDefinition(_NORMAL, "CreatingPod", _pod),
        ReasonCode.WAITING_FOR_GATE.value: EventDefinition(_NORMAL, "Scheduling", _pod),
        # Waits for capacity: no device or seat is free, or none can ever fit.
        ReasonCode.WAITING_FOR_CAPACITY.value: EventDefinition(_WARNING, "Placing"),
        ReasonCode.NO_CAPACITY.value: EventDefinition(_WARNING, "Placing"),
        # Problems that need attention.
        ReasonCode.INVALID_CONFIGURATION.value: EventDefinition(_WARNING, "Placing"),
        ReasonCode.SCHEDULER_ERROR.value: EventDefinition(_WARNING, "Scheduling", _pod),
        ReasonCode.WAITING_FOR_SCHEDULER.value: EventDefinition(_WARNING, "Scheduling", _pod),
        ReasonCode.CONTAINER_WAITING.value: EventDefinition(_WARNING, "Starting", _pod),
        ReasonCode.POD_REJECTED.value: EventDefinition(_WARNING, "CreatingPod"),
        ReasonCode.REPLACING_WEDGED_CLAIM.value: EventDefinition(_WARNING, "Moving", _claim),
        ReasonCode.SEAT_LOST.value: EventDefinition(_WARNING, "Moving"),
        # Failures.
        ReasonCode.INVALID_SPEC.value: EventDefinition(_WARNING, "Validating"),
        ReasonCode.INVALID_TEMPLATE.value: EventDefinition(_WARNING, "Validating"),
        ReasonCode.POD_CONFLICT.value: EventDefinition(_WARNING, "CreatingPod", _pod),
        ReasonCode.PLACEMENT_TIMEOUT.value: EventDefinition(_WARNING, "Placing"),
        ReasonCode.POD_FAILED.value: EventDefinition(_WARNING, "Running", _pod),
    }
)
"""Every reason; contract §2.1 lists the situations."""

_ORDINARY_STARTS = frozenset({"ContainerCreating", "PodInitializing"})
"""Ordinary states of a container whose image is still being pulled: not worth a warning."""


def event_for(before: Workload, after: Workload) -> EventData | None:
    """Return the Event for a status change, `None` if there is nothing new to report."""
    reason, detail = _reported_change(before, after)
    kind = EVENT_KINDS.get(reason)
    if kind is None:
        return None
    distinct = after.status.node_name if reason == ReasonCode.PLACED.value else ""
    return EventData(kind.type, reason, kind.action, kind.note(after, detail), kind.related(after), distinct)


def _reported_change(before: Workload, after: Workload) -> tuple[str, str]:
    """Return reason and detail of the change, an empty reason if there is nothing to report."""
    if after.status.phase != before.status.phase:
        if after.status.phase == Phase.RUNNING.value:
            return ReasonCode.PLACED.value, ""
        if after.status.phase == Phase.SUCCEEDED.value:
            return SUCCEEDED, ""
    if after.status.reason == before.status.reason and not (after.terminal and not before.terminal):
        return "", ""
    reason, _, detail = after.status.reason.partition(": ")
    if reason == ReasonCode.CONTAINER_WAITING.value and detail in _ORDINARY_STARTS:
        return "", ""
    return reason, detail


class WorkloadEvents:
    """Records Events for status writes."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def record_status_write(self, before: Workload, after: Workload) -> None:
        """Record the Event of a status write that changed `before` into `after`. Never raises or waits."""
        event = event_for(before, after)
        if event is None:
            return
        self._recorder.record(
            Reference.of(WORKLOADS, after),
            type_=event.type,
            reason=event.reason,
            action=event.action,
            note=event.note,
            related=event.related,
            distinct=event.distinct,
        )

    def record_invalid(self, workload: Workload | UnreadableObject, note: str) -> None:
        """Record that a Workload is invalid, when its status cannot state it. Never raises or waits."""
        self._record_warning(workload, ReasonCode.INVALID_SPEC.value, note)

    def record_refused_write(self, workload: Workload, note: str) -> None:
        """Record that a write was refused, when the status cannot state it. Never raises or waits."""
        self._record_warning(workload, ReasonCode.POD_REJECTED.value, note)

    def _record_warning(self, workload: Workload | UnreadableObject, reason: str, note: str) -> None:
        regarding = Reference.of(WORKLOADS, workload)
        action = EVENT_KINDS[reason].action
        self._recorder.record(regarding, type_=EventType.WARNING, reason=reason, action=action, note=note)


def make_recorder(api: Api, settings: Settings, nondeterminism: Nondeterminism) -> EventRecorder:
    """Create the recorder of this process. Its Events name its Pod, or its host without a Pod."""
    return EventRecorder(
        api,
        reporting_controller=REPORTING_CONTROLLER,
        reporting_instance=(settings.pod_name or socket.gethostname() or PROGRAM)[:CODE_CHARACTERS_MAX],
        now=nondeterminism.now,
        rng=nondeterminism.rng,
    )
