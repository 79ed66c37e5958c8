"""When a status write is due, and what it sends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from controller.api.reasons import Phase, ReasonCode, sentence, truncate
from controller.api.status import (
    UNASSIGNED,
    Assignment,
    PlacedUpdate,
    PlacementDetails,
    StatusUpdate,
    assignment_of,
    parse_timestamp,
    status_patch,
    timestamp,
)
from controller.api.workload import Workload
from tests.controller.build import EPOCH, Document, at, workload

NOW = EPOCH + timedelta(hours=1)
THEN = at(minutes=5)
PLACED: Document = {
    "type": "Placed",
    "status": "False",
    "reason": "WaitingForCapacity",
    "message": "old words",
    "lastTransitionTime": THEN,
    "observedGeneration": 1,
}
WAITING: Document = {
    "phase": "Pending",
    "reason": "WaitingForCapacity: claims that fit are full",
    "claimName": "claim-a",
    "assignmentID": "booking-1",
    "conditions": [PLACED],
}
AS_IT_IS = StatusUpdate(
    phase=Phase.PENDING,
    reason="WaitingForCapacity: claims that fit are full",
    condition=PlacedUpdate(False, ReasonCode.WAITING_FOR_CAPACITY, "other words"),
    assignment=Assignment("claim-a", "booking-1"),
    details=PlacementDetails("orw-a", "node", 1, "20Gi"),
)


def waiting(**changes: Any) -> Workload:
    return workload("a", status=WAITING | changes)


def written(workload_: Workload, outcome: StatusUpdate, *, force: bool = False) -> Document:
    patch = status_patch(workload_, outcome, NOW, force=force)
    assert patch is not None
    status: Document = patch["status"]
    return status


def placed(workload_: Workload, outcome: StatusUpdate, *, force: bool = False) -> Document:
    (condition,) = (
        c for c in written(workload_, outcome, force=force)["conditions"] if c["type"] == "Placed"
    )
    found: Document = condition
    return found


DUE = {
    "the phase": StatusUpdate(phase=Phase.PLACING),
    "the reason": StatusUpdate(reason="WaitingForCapacity: another cause"),
    "no reason": StatusUpdate(reason=""),
    "the claim": StatusUpdate(assignment=Assignment("claim-b", "booking-1")),
    "the booking": StatusUpdate(assignment=Assignment("claim-a", "booking-2")),
    "no assignment": StatusUpdate(assignment=UNASSIGNED),
    "the truth of the verdict": StatusUpdate(condition=PlacedUpdate(True, ReasonCode.WAITING_FOR_CAPACITY)),
    "the code of the verdict": StatusUpdate(condition=PlacedUpdate(False, ReasonCode.UNSCHEDULABLE)),
}
NOT_DUE = {
    "all is as it was, but for words, names and counts": AS_IT_IS,
    "nothing is said": StatusUpdate(),
    "facts alone": StatusUpdate(details=PlacementDetails("orw-b", "other", 4, "80Gi")),
    "a note alone": StatusUpdate(note="released claim-x"),
    "another message alone": StatusUpdate(
        condition=PlacedUpdate(False, ReasonCode.WAITING_FOR_CAPACITY, "news")
    ),
}


@pytest.mark.parametrize("outcome", DUE.values(), ids=DUE)
def test_a_write_is_due_when_this_changes(outcome: StatusUpdate) -> None:
    assert status_patch(waiting(), outcome, NOW) is not None


@pytest.mark.parametrize("outcome", NOT_DUE.values(), ids=NOT_DUE)
def test_no_write_is_due_while(outcome: StatusUpdate) -> None:
    assert status_patch(waiting(), outcome, NOW) is None
    assert status_patch(waiting(), outcome, NOW, force=True) is not None


def test_a_worker_that_is_on_no_node_any_more_says_so_at_once() -> None:
    """Where it is gained rides along with the next write; what is no longer true does not wait for one."""
    nowhere = replace(AS_IT_IS, details=PlacementDetails("orw-a", "", 0, "20Gi"))
    assert written(waiting(nodeName="node", deviceCount=1), nowhere)["nodeName"] is None
    assert status_patch(waiting(), nowhere, NOW) is None


def test_a_first_verdict_is_due() -> None:
    assert status_patch(waiting(conditions=[]), AS_IT_IS, NOW) is not None


def test_a_patch_holds_only_for_the_object_and_version_that_was_read() -> None:
    found = waiting()
    patch = status_patch(found, StatusUpdate(phase=Phase.RUNNING), NOW)
    assert patch == {
        "metadata": {"uid": "uid-a", "resourceVersion": found.metadata.resource_version},
        "status": {"observedGeneration": 1, "phase": "Running"},
    }


def test_a_forced_write_that_says_nothing_sends_nothing_new() -> None:
    assert written(waiting(), StatusUpdate(), force=True) == {"observedGeneration": 1}


def test_names_and_counts_ride_along_and_what_is_empty_is_removed() -> None:
    moved = StatusUpdate(
        phase=Phase.RUNNING, reason="", assignment=UNASSIGNED, details=PlacementDetails(pod_name="orw-a")
    )
    assert written(waiting(), moved) == {
        "observedGeneration": 1,
        "phase": "Running",
        "reason": None,
        "claimName": None,
        "assignmentID": None,
        "podName": "orw-a",
        "nodeName": None,
        "deviceCount": None,
        "memoryPerDevice": None,
    }
    facts = PlacementDetails("orw-a", "node", 2, "20Gi")
    status = written(waiting(), StatusUpdate(phase=Phase.RUNNING, details=facts))
    assert (status["nodeName"], status["deviceCount"], status["memoryPerDevice"]) == ("node", 2, "20Gi")


def test_the_transition_time_stays_while_the_truth_does() -> None:
    condition = placed(
        waiting(), StatusUpdate(condition=PlacedUpdate(False, ReasonCode.UNSCHEDULABLE, "words"))
    )
    assert condition == PLACED | {"reason": "Unschedulable", "message": "words"}


def test_the_transition_time_moves_when_the_truth_flips() -> None:
    condition = placed(waiting(), StatusUpdate(condition=PlacedUpdate(True, ReasonCode.PLACED)))
    assert (condition["status"], condition["lastTransitionTime"]) == ("True", "2026-01-01T01:00:00Z")


@pytest.mark.parametrize("before", [[], [{"type": "Placed", "status": "False"}]], ids=["never", "undated"])
def test_a_condition_without_a_transition_time_gets_one(before: list[Document]) -> None:
    condition = placed(
        waiting(conditions=before), StatusUpdate(condition=PlacedUpdate(False, ReasonCode.SEAT_LOST))
    )
    assert condition["lastTransitionTime"] == "2026-01-01T01:00:00Z"


def test_other_conditions_and_their_unknown_fields_survive() -> None:
    foreign = {"type": "Novel", "status": "True", "severity": "High", "observedBy": {"name": "x"}}
    bare = {"type": "Bare", "status": "Unknown"}
    before = waiting(conditions=[foreign, PLACED, bare])
    conditions = written(before, StatusUpdate(condition=PlacedUpdate(True, ReasonCode.PLACED)))["conditions"]
    assert conditions[:2] == [foreign, bare]
    assert conditions[2]["type"] == "Placed"


def test_conditions_are_not_sent_where_the_verdict_stands() -> None:
    assert "conditions" not in written(waiting(), StatusUpdate(phase=Phase.PLACING))


def test_a_note_changes_the_message_and_nothing_else() -> None:
    assert placed(waiting(), StatusUpdate(note="released claim-x"), force=True) == PLACED | {
        "message": "released claim-x"
    }


def test_a_note_gives_way_to_anything_else_that_changes() -> None:
    both = StatusUpdate(phase=Phase.PLACING, note="released claim-x")
    assert "conditions" not in written(waiting(), both)


def test_a_note_is_said_beside_a_verdict_that_stands() -> None:
    stands = StatusUpdate(
        condition=PlacedUpdate(False, ReasonCode.WAITING_FOR_CAPACITY), note="released claim-x"
    )
    before = waiting(conditions=[PLACED | {"status": "False", "reason": "WaitingForCapacity"}])
    assert placed(before, stands, force=True)["message"] == "released claim-x"


def test_a_note_on_a_worker_that_was_never_judged() -> None:
    condition = placed(waiting(conditions=[]), StatusUpdate(note="released claim-x"), force=True)
    assert (condition["status"], condition["message"]) == ("Unknown", "released claim-x")
    assert condition["reason"]
    assert condition["lastTransitionTime"] == timestamp(NOW)


@pytest.mark.parametrize(
    "outcome",
    [
        StatusUpdate(note="m" * 40_000),
        StatusUpdate(condition=PlacedUpdate(True, ReasonCode.PLACED, "m" * 40_000)),
    ],
)
def test_a_message_is_cut_at_what_the_api_server_takes(outcome: StatusUpdate) -> None:
    message = placed(waiting(), outcome, force=True)["message"]
    assert len(message) == 32_768
    assert message.endswith("m…")


def test_a_reason_is_one_sentence_cut_at_what_the_schema_takes() -> None:
    assert sentence(ReasonCode.POD_FAILED, "why") == "PodFailed: why"
    long = sentence(ReasonCode.POD_FAILED, "m" * 2000)
    assert len(long) == 1024
    assert long.startswith("PodFailed: m")
    assert long.endswith("m…")
    assert truncate("m" * 1024, 1024) == "m" * 1024


def test_what_the_status_names() -> None:
    assert assignment_of(waiting()) == Assignment("claim-a", "booking-1")
    assert assignment_of(workload()) == UNASSIGNED


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-01T01:00:00Z", NOW),
        ("2026-01-01T01:00:00.000000Z", NOW),
        ("2026-01-01T03:00:00+02:00", NOW),
        ("2026-01-01T01:00:00.123456789Z", NOW + timedelta(microseconds=123456)),
    ],
)
def test_times_of_the_api_are_read(text: str, time: datetime) -> None:
    assert parse_timestamp(text) == time


def test_times_are_written_in_utc_and_whole_seconds() -> None:
    local = datetime(2026, 1, 1, 3, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(local) == "2026-01-01T01:00:00Z"
    assert parse_timestamp(timestamp(local)) == local.astimezone(UTC).replace(microsecond=0)
