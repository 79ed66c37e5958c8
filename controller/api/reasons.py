"""Phases, reason codes and the sentences of `status.reason` (contract §2.1).

A sentence starts with its code and a colon. It contains no counts and no text of other components, so that
it changes only with the code, the causes or the limit.
"""

from __future__ import annotations

from enum import Enum

from placement.explain import REASON_MAX_CHARACTERS

MESSAGE_MAX_CHARACTERS = 32768

PLACED_CONDITION = "Placed"


class Phase(Enum):
    """`status.phase`."""

    PENDING = "Pending"
    PLACING = "Placing"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


TERMINAL_PHASES = frozenset({Phase.SUCCEEDED.value, Phase.FAILED.value})


class ReasonCode(Enum):
    """First words of `status.reason`, and reasons of the condition `Placed`."""

    CREATED_CLAIM = "CreatedClaim"
    JOINED_CLAIM = "JoinedClaim"
    SHARED_ON_UNSCHEDULABLE = "SharedOnUnschedulable"
    CONTAINER_WAITING = "ContainerWaiting"
    NOT_STARTED = "NotStarted"
    PLACED = "Placed"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    NO_CAPACITY = "NoCapacity"
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULER_ERROR = "SchedulerError"
    WAITING_FOR_SCHEDULER = "WaitingForScheduler"
    WAITING_FOR_GATE = "WaitingForGate"
    WAITING_FOR_PREDECESSOR_CLAIM = "WaitingForPredecessorClaim"
    WAITING_FOR_PREDECESSOR_POD = "WaitingForPredecessorPod"
    WAITING_FOR_POD_GONE = "WaitingForPodGone"
    INVALID_CONFIGURATION = "InvalidConfiguration"
    REPLACING_WEDGED_CLAIM = "ReplacingWedgedClaim"
    SEAT_LOST = "SeatLost"
    PLACEMENT_TIMEOUT = "PlacementTimeout"
    UNSATISFIABLE = "Unsatisfiable"
    POD_REJECTED = "PodRejected"
    INVALID_SPEC = "InvalidSpec"
    INVALID_TEMPLATE = "InvalidTemplate"
    POD_CONFLICT = "PodConflict"
    POD_FAILED = "PodFailed"


def sentence(code: ReasonCode, detail: str) -> str:
    """Return `<code>: <detail>`, truncated to the maximum length of `status.reason`."""
    return truncate(f"{code.value}: {detail}", REASON_MAX_CHARACTERS)


def code_of(reason: str) -> str:
    """Return the code of a `status.reason`; empty for an empty reason."""
    return reason.partition(":")[0]


def has_code(reason: str, code: ReasonCode) -> bool:
    """Return whether a `status.reason` has this code."""
    return reason.startswith(f"{code.value}:")


def truncate(text: str, max_characters: int) -> str:
    """Shorten a long text and mark the end with an ellipsis."""
    return text if len(text) <= max_characters else text[: max_characters - 1] + "…"
