"""Phases, condition reasons and the sentences of `status.reason`: each code is written here once.

Contract §2.1. A sentence begins with its code and a colon; it holds no counts and no
foreign wording, so that it changes only when the code, the causes or the limit do.
"""

from __future__ import annotations

from enum import Enum

REASON_MAX_CHARACTERS = 1024
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
    """Reason codes: the first word of `status.reason`, and the reasons of condition `Placed`."""

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
    """`<code>: <detail>`, cut to what `status.reason` may hold."""
    return truncate(f"{code.value}: {detail}", REASON_MAX_CHARACTERS)


def code_of(reason: str) -> str:
    """The code that a `status.reason` begins with; empty for an empty one."""
    return reason.partition(":")[0]


def has_code(reason: str, code: ReasonCode) -> bool:
    """Whether a `status.reason` bears this code."""
    return reason.startswith(f"{code.value}:")


def truncate(text: str, max_characters: int) -> str:
    """Shorten a text that is too long, visibly."""
    return text if len(text) <= max_characters else text[: max_characters - 1] + "…"
