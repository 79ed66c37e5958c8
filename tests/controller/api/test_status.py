"""Tests of status patches: when a write is due, and its content."""

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
    waiting_since,
)
from controller.api.workload import Workload
from tests.controller.build import EPOCH, Document, at, workload

NOW = EPOCH + timedelta(hours=1)
THEN = at(minutes=5)
PLACED: Document = {
    "type": "Placed",
    "status": "False",
    "reason": "WaitingForCapacity",
    "message": "old text",
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
UNCHANGED = StatusUpdate(
    phase=Phase.PENDING,
    reason="WaitingForCapacity: claims that fit are full",
    condition=PlacedUpdate(False, ReasonCode.WAITING_FOR_CAPACITY, "other text"),
    assignment=Assignment("claim-a", "booking-1"),
    details=PlacementDetails("orw-a", "node", 1, "20Gi"),
)


def waiting(**changes: Any) -> Workload:
    return workload("a", status=WAITING | changes)


def written(workload_: Workload, update: StatusUpdate, *, force: bool = False) -> Document:
    patch = status_patch(workload_, update, NOW, force=force)
    assert patch is not None
    status: Document = patch["status"]
    return status


def placed(workload_: Workload, update: StatusUpdate, *, force: bool = False) -> Document:
    (condition,) = (c for c in written(workload_, update, force=force)["conditions"] if c["type"] == "Placed")
    found: Document = condition
    return found


DUE = {
    "the phase": StatusUpdate(phase=Phase.PLACING),
    "the reason": StatusUpdate(reason="WaitingForCapacity: another cause"),
    "no reason": StatusUpdate(reason=""),
    "the claim": StatusUpdate(assignment=Assignment("claim-b", "booking-1")),
    "the assignment ID": StatusUpdate(assignment=Assignment("claim-a", "booking-2")),
    "no assignment": StatusUpdate(assignment=UNASSIGNED),
    "the condition's status": StatusUpdate(condition=PlacedUpdate(True, ReasonCode.WAITING_FOR_CAPACITY)),
    "the condition's reason": StatusUpdate(condition=PlacedUpdate(False, ReasonCode.UNSCHEDULABLE)),
}
NOT_DUE = {
    "only texts, names and counts change": UNCHANGED,
    "nothing is given": StatusUpdate(),
    "only details are given": StatusUpdate(details=PlacementDetails("orw-b", "other", 4, "80Gi")),
    "only a note is given": StatusUpdate(note="released claim-x"),
    "only the message changes": StatusUpdate(
        condition=PlacedUpdate(False, ReasonCode.WAITING_FOR_CAPACITY, "news")
    ),
}


@pytest.mark.parametrize("update", DUE.values(), ids=DUE)
def test_a_write_is_due_if_this_changes(update: StatusUpdate) -> None:
    assert status_patch(waiting(), update, NOW) is not None


@pytest.mark.parametrize("update", NOT_DUE.values(), ids=NOT_DUE)
def test_no_write_is_due_if(update: StatusUpdate) -> None:
    assert status_patch(waiting(), update, NOW) is None
    assert status_patch(waiting(), update, NOW, force=True) is not None


def test_a_removed_node_name_is_written_at_once() -> None:
    """A new node name waits for the next write. A stale one does not."""
    no_node = replace(UNCHANGED, details=PlacementDetails("orw-a", "", 0, "20Gi"))
    assert written(waiting(nodeName="node", deviceCount=1), no_node)["nodeName"] is None
    assert status_patch(waiting(), no_node, NOW) is None


def test_a_first_condition_is_due() -> None:
    assert status_patch(waiting(conditions=[]), UNCHANGED, NOW) is not None


def test_a_patch_names_the_uid_and_version_that_were_read() -> None:
    found = waiting()
    patch = status_patch(found, StatusUpdate(phase=Phase.RUNNING), NOW)
    assert patch == {
        "metadata": {"uid": "uid-a", "resourceVersion": found.metadata.resource_version},
        "status": {"observedGeneration": 1, "phase": "Running"},
    }


def test_a_forced_patch_without_changes_keeps_the_status() -> None:
    assert written(waiting(), StatusUpdate(), force=True) == {"observedGeneration": 1}


def test_a_due_write_includes_details_and_removes_empty_fields() -> None:
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
    details = PlacementDetails("orw-a", "node", 2, "20Gi")
    status = written(waiting(), StatusUpdate(phase=Phase.RUNNING, details=details))
    assert (status["nodeName"], status["deviceCount"], status["memoryPerDevice"]) == ("node", 2, "20Gi")


def test_the_transition_time_is_kept_while_the_status_is_equal() -> None:
    condition = placed(
        waiting(), StatusUpdate(condition=PlacedUpdate(False, ReasonCode.UNSCHEDULABLE, "words"))
    )
    assert condition == PLACED | {"reason": "Unschedulable", "message": "words"}


def test_the_transition_time_changes_with_the_status() -> None:
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


def test_conditions_are_not_sent_without_a_condition() -> None:
    assert "conditions" not in written(waiting(), StatusUpdate(phase=Phase.PLACING))


def test_a_note_changes_only_the_message() -> None:
    assert placed(waiting(), StatusUpdate(note="released claim-x"), force=True) == PLACED | {
        "message": "released claim-x"
    }


def test_a_note_is_dropped_if_something_else_changes() -> None:
    both = StatusUpdate(phase=Phase.PLACING, note="released claim-x")
    assert "conditions" not in written(waiting(), both)


def test_a_note_replaces_the_message_of_an_unchanged_condition() -> None:
    unchanged = StatusUpdate(
        condition=PlacedUpdate(False, ReasonCode.WAITING_FOR_CAPACITY), note="released claim-x"
    )
    before = waiting(conditions=[PLACED | {"status": "False", "reason": "WaitingForCapacity"}])
    assert placed(before, unchanged, force=True)["message"] == "released claim-x"


def test_a_note_without_a_condition_creates_an_unknown_one() -> None:
    condition = placed(waiting(conditions=[]), StatusUpdate(note="released claim-x"), force=True)
    assert (condition["status"], condition["message"]) == ("Unknown", "released claim-x")
    assert condition["reason"]
    assert condition["lastTransitionTime"] == timestamp(NOW)


@pytest.mark.parametrize(
    "update",
    [
        StatusUpdate(note="m" * 40_000),
        StatusUpdate(condition=PlacedUpdate(True, ReasonCode.PLACED, "m" * 40_000)),
    ],
)
def test_a_message_is_truncated_to_the_maximum_of_the_schema(update: StatusUpdate) -> None:
    message = placed(waiting(), update, force=True)["message"]
    assert len(message) == 32_768
    assert message.endswith("m…")


def test_a_reason_is_truncated_to_the_maximum_of_the_schema() -> None:
    assert sentence(ReasonCode.POD_FAILED, "why") == "PodFailed: why"
    long = sentence(ReasonCode.POD_FAILED, "m" * 2000)
    assert len(long) == 1024
    assert long.startswith("PodFailed: m")
    assert long.endswith("m…")
    assert truncate("m" * 1024, 1024) == "m" * 1024


def test_the_assignment_comes_from_the_status() -> None:
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
def test_api_times_are_parsed(text: str, time: datetime) -> None:
    assert parse_timestamp(text) == time


@pytest.mark.parametrize("text", ["", "x", "0000-01-01T00:00:00Z", "+292277026596-12-04T15:30:07Z"])
def test_a_time_that_cannot_be_represented_is_in_the_first_year(text: str) -> None:
    assert parse_timestamp(text) == datetime(1, 1, 1, tzinfo=UTC)


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert parse_timestamp("2026-01-01T01:00:00") == NOW


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "x"])
def test_a_wait_without_a_usable_transition_time_began_with_the_workload(text: str) -> None:
    placed = {"type": "Placed", "status": "False", "lastTransitionTime": text}
    waiting = workload("a", status={"conditions": [placed]})
    assert waiting_since(waiting) == parse_timestamp(waiting.metadata.creation_timestamp)


def test_times_are_formatted_in_utc_and_whole_seconds() -> None:
    local = datetime(2026, 1, 1, 3, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(local) == "2026-01-01T01:00:00Z"
    assert parse_timestamp(timestamp(local)) == local.astimezone(UTC).replace(microsecond=0)
