"""What Kubernetes Events tell about Workloads: one table of reasons, and when each is said.

An event follows from a status write that succeeded, by what changed in it: an outcome, never an intention,
and never that something is still so. So whatever an event says is in the status too, which does not expire.
Reasons are the codes of `status.reason`, so that one word is looked up in one place. An event that repeats
another shows the first one's note (`informers.events.recorder`): `distinct` names what makes it a different
one.
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
from controller.config.nondeterminism import Nondeterminism
from controller.config.settings import PROGRAM, Settings
from informers.api import Api
from informers.events.object import CODE_CHARACTERS_MAX, EventType, Reference
from informers.events.recorder import EventRecorder

REPORTING_CONTROLLER = "openrl.io/open-rl-scheduler"

FLUSH_SECONDS = 3.0
"""How long a stop may wait for events to be sent; with `DRAIN_SECONDS` less than the Deployment grants."""

SUCCEEDED = Phase.SUCCEEDED.value
"""The one reason that is no code: a worker that succeeded has no `status.reason`."""


@dataclass(frozen=True)
class EventDefinition:
    """How an event with a certain reason is told."""

    type: EventType
    action: str
    """What was done or tried: UpperCamelCase, at most 128 characters."""
    related: Callable[[Workload], Reference | None] = lambda _: None
    note: Callable[[Workload, str], str] = lambda _, detail: detail
    """From the Workload and what its `status.reason` says behind the code."""


@dataclass(frozen=True)
class EventData:
    """One event, but for the Workload that it is about."""

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


def _created_note(workload: Workload, detail: str) -> str:
    return f"Created claim {workload.status.claim_name} for {detail}"


def _joined_note(workload: Workload, _: str) -> str:
    return f"Took a seat on claim {workload.status.claim_name}"


def _moved_note(workload: Workload, _: str) -> str:
    claim = workload.status.claim_name
    return f"Moved to a seat on claim {claim}, since kube-scheduler could not allocate the claim before"


_NORMAL, _WARNING = EventType.NORMAL, EventType.WARNING

EVENT_KINDS: Mapping[str, EventDefinition] = MappingProxyType(
    {
        # Progress.
        ReasonCode.CREATED_CLAIM.value: EventDefinition(_NORMAL, "Seating", _claim, _created_note),
        ReasonCode.JOINED_CLAIM.value: EventDefinition(_NORMAL, "Seating", _claim, _joined_note),
        ReasonCode.SHARED_ON_UNSCHEDULABLE.value: EventDefinition(_NORMAL, "Moving", _claim, _moved_note),
        ReasonCode.PLACED.value: EventDefinition(_NORMAL, "Starting", _pod, _placed_note),
        SUCCEEDED: EventDefinition(_NORMAL, "Running", _pod, lambda *_: "The Pod ended successfully"),
        # Waits that end by themselves, with what the worker waits for.
        ReasonCode.WAITING_FOR_PREDECESSOR_CLAIM.value: EventDefinition(_NORMAL, "Seating"),
        ReasonCode.WAITING_FOR_PREDECESSOR_POD.value: EventDefinition(_NORMAL, "CreatingPod", _pod),
        ReasonCode.WAITING_FOR_POD_GONE.value: EventDefinition(_NORMAL, "CreatingPod", _pod),
        # Waits for capacity: no device or seat is free, or none will ever fit.
        ReasonCode.WAITING_FOR_CAPACITY.value: EventDefinition(_WARNING, "Placing"),
        ReasonCode.NO_CAPACITY.value: EventDefinition(_WARNING, "Placing"),
        # What hinders a worker and needs a look at the cluster.
        ReasonCode.INVALID_CONFIGURATION.value: EventDefinition(_WARNING, "Placing"),
        ReasonCode.SCHEDULER_ERROR.value: EventDefinition(_WARNING, "Scheduling", _pod),
        ReasonCode.CONTAINER_WAITING.value: EventDefinition(_WARNING, "Starting", _pod),
        ReasonCode.POD_REJECTED.value: EventDefinition(_WARNING, "CreatingPod"),
        ReasonCode.REPLACING_WEDGED_CLAIM.value: EventDefinition(_WARNING, "Moving", _claim),
        ReasonCode.SEAT_LOST.value: EventDefinition(_WARNING, "Moving"),
        # How workers fail.
        ReasonCode.INVALID_SPEC.value: EventDefinition(_WARNING, "Validating"),
        ReasonCode.INVALID_TEMPLATE.value: EventDefinition(_WARNING, "Validating"),
        ReasonCode.POD_CONFLICT.value: EventDefinition(_WARNING, "CreatingPod", _pod),
        ReasonCode.PLACEMENT_TIMEOUT.value: EventDefinition(_WARNING, "Placing"),
        ReasonCode.POD_FAILED.value: EventDefinition(_WARNING, "Running", _pod),
    }
)
"""Every reason, by its word; contract §2.1 says in which situation a status bears it."""


_ORDINARY_STARTS = frozenset({"ContainerCreating", "PodInitializing"})
"""What kubelet says of any container whose image is large: no news, and no reason for a warning."""


def event_for(before: Workload, after: Workload) -> EventData | None:
    """The event that a status write amounts to; `None` if nothing happened that was not told before."""
    reason, detail = _news(before, after)
    kind = EVENT_KINDS.get(reason)
    if kind is None:
        return None
    distinct = after.status.node_name if reason == ReasonCode.PLACED.value else ""
    return EventData(kind.type, reason, kind.action, kind.note(after, detail), kind.related(after), distinct)


def _news(before: Workload, after: Workload) -> tuple[str, str]:
    """The reason of what changed and what is said about it; no reason if nothing did."""
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
    """Tells what status writes amount to."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def __repr__(self) -> str:
        return f"<WorkloadEvents {self._recorder!r}>"

    def record_status_write(self, before: Workload, after: Workload) -> None:
        """A status was written on the version `before`, and is now that of `after`. Never raises or waits."""
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


def make_recorder(api: Api, settings: Settings, nondeterminism: Nondeterminism) -> EventRecorder:
    """The recorder of this process; its events bear the name of its Pod, or that of its host."""
    return EventRecorder(
        api,
        reporting_controller=REPORTING_CONTROLLER,
        reporting_instance=(settings.pod_name or socket.gethostname() or PROGRAM)[:CODE_CHARACTERS_MAX],
        now=nondeterminism.now,
        rng=nondeterminism.rng,
    )
