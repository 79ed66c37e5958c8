"""The Event for each status change."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from controller.api.reasons import Phase, ReasonCode
from controller.api.workload import Workload, WorkloadMetadata, WorkloadStatus
from controller.config.flags import Settings
from controller.config.nondeterminism import Nondeterminism
from controller.controller import DRAIN_SECONDS
from controller.observe.events import (
    EVENT_KINDS,
    FLUSH_SECONDS,
    SUCCEEDED,
    EventData,
    WorkloadEvents,
    event_for,
    make_recorder,
)
from informers.events.object import CODE_CHARACTERS_MAX, EventType, Reference
from tests.informers.events.event_server import EventServer
from tests.manifests.tree import MANIFESTS, load
from tests.virtualtime import run_virtual

POD = Reference("v1", "Pod", "orw-trainer", "openrl-system")
CLAIM = Reference("resource.k8s.io/v1", "ResourceClaim", "claim-a", "openrl-system")


def workload(phase: Phase | None = None, reason: str = "", **status: Any) -> Workload:
    return Workload(
        metadata=WorkloadMetadata(
            name="trainer", namespace="openrl-system", uid="uid-1", resource_version="7"
        ),
        status=WorkloadStatus(phase=phase.value if phase else "", reason=reason, **status),
    )


BOOKED = {"claim_name": "claim-a", "assignment_id": "id-1"}
NEW = workload()
PLACING = workload(Phase.PLACING, "JoinedClaim: claim-a", **BOOKED)
WAITING = workload(Phase.PENDING, "WaitingForCapacity: claims that fit are full")
RUNNING = workload(Phase.RUNNING, **BOOKED, pod_name="orw-trainer", node_name="gpu-node-0", device_count=1)


@pytest.mark.parametrize(
    ("before", "after", "event"),
    [
        (
            NEW,
            workload(Phase.PLACING, "CreatedClaim: t1x24|t1x80", **BOOKED),
            EventData(
                EventType.NORMAL, "CreatedClaim", "Seating", "Created claim claim-a for t1x24|t1x80", CLAIM
            ),
        ),
        (
            WAITING,
            PLACING,
            EventData(EventType.NORMAL, "JoinedClaim", "Seating", "Joined claim claim-a", CLAIM),
        ),
        (
            workload(Phase.PENDING, "NoCapacity: x", claim_name="claim-b", assignment_id="id-0"),
            workload(Phase.PLACING, "SharedOnUnschedulable: claim-a", **BOOKED),
            EventData(
                EventType.NORMAL,
                "SharedOnUnschedulable",
                "Moving",
                "Moved to claim claim-a because kube-scheduler could not allocate the previous claim",
                CLAIM,
            ),
        ),
        (
            PLACING,
            RUNNING,
            EventData(
                EventType.NORMAL,
                "Placed",
                "Starting",
                "Running on node gpu-node-0 with claim claim-a, devices: 1",
                POD,
                distinct="gpu-node-0",
            ),
        ),
        (
            NEW,
            WAITING,
            EventData(EventType.WARNING, "WaitingForCapacity", "Placing", "claims that fit are full"),
        ),
        (
            WAITING,
            workload(Phase.PENDING, "NoCapacity: no device has 900Gi"),
            EventData(EventType.WARNING, "NoCapacity", "Placing", "no device has 900Gi"),
        ),
        (
            PLACING,
            workload(Phase.PLACING, "ContainerWaiting: ImagePullBackOff", **BOOKED),
            EventData(EventType.WARNING, "ContainerWaiting", "Starting", "ImagePullBackOff", POD),
        ),
        (
            NEW,
            workload(Phase.FAILED, "InvalidSpec: memory: must be positive"),
            EventData(EventType.WARNING, "InvalidSpec", "Validating", "memory: must be positive"),
        ),
        (
            NEW,
            workload(Phase.FAILED, "PodConflict: Pod orw-trainer is not ours"),
            EventData(EventType.WARNING, "PodConflict", "CreatingPod", "Pod orw-trainer is not ours", POD),
        ),
        (
            RUNNING,
            workload(Phase.FAILED, "PodFailed: container worker exited with code 1", **BOOKED),
            EventData(EventType.WARNING, "PodFailed", "Running", "container worker exited with code 1", POD),
        ),
        (
            RUNNING,
            workload(Phase.SUCCEEDED, **BOOKED),
            EventData(EventType.NORMAL, "Succeeded", "Running", "The Pod succeeded", POD),
        ),
    ],
    ids=lambda value: value.reason if isinstance(value, EventData) else "",
)
def test_a_status_change_is_reported(before: Workload, after: Workload, event: EventData) -> None:
    assert event_for(before, after) == event


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WAITING, WAITING),
        (RUNNING, RUNNING),
        (RUNNING, workload(Phase.RUNNING, **BOOKED, node_name="gpu-node-0", device_count=2)),
        (PLACING, workload(Phase.PLACING, PLACING.status.reason, claim_name="claim-a", assignment_id="id-2")),
        (WAITING, workload(Phase.PENDING)),
        (WAITING, workload(Phase.PENDING, "SomethingElse: written by another controller")),
        (WAITING, workload(Phase.PENDING, "without any code")),
        (PLACING, workload(Phase.PLACING, "ContainerWaiting: ContainerCreating", **BOOKED)),
        (PLACING, workload(Phase.PLACING, "ContainerWaiting: PodInitializing", **BOOKED)),
    ],
)
def test_an_unchanged_state_is_not_reported(before: Workload, after: Workload) -> None:
    assert event_for(before, after) is None


def test_a_failure_with_an_unchanged_reason_is_reported() -> None:
    before = workload(Phase.PENDING, "InvalidTemplate: x")
    event = event_for(before, workload(Phase.FAILED, "InvalidTemplate: x"))
    assert event is not None
    assert event.reason == "InvalidTemplate"


def test_every_code_of_a_status_reason_has_an_event() -> None:
    condition_only = {ReasonCode.NOT_STARTED, ReasonCode.UNSCHEDULABLE, ReasonCode.UNSATISFIABLE}
    assert set(EVENT_KINDS) == {code.value for code in ReasonCode if code not in condition_only} | {SUCCEEDED}


def test_reasons_and_actions_are_upper_camel_case_and_short_enough() -> None:
    for reason, kind in EVENT_KINDS.items():
        for word in (reason, kind.action):
            assert re.fullmatch(r"([A-Z][a-z]+)+", word)
            assert len(word) <= CODE_CHARACTERS_MAX


@pytest.mark.parametrize("reason", EVENT_KINDS)
def test_every_reason_has_a_note_even_for_an_empty_status(reason: str) -> None:
    kind = EVENT_KINDS[reason]
    assert kind.note(NEW, "why")
    kind.related(NEW)


def test_drain_and_flush_fit_into_the_grace_period_of_the_deployment() -> None:
    deployment = load(MANIFESTS / "controller" / "deployment.yaml")
    grace_seconds = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_seconds > DRAIN_SECONDS + FLUSH_SECONDS


def _wall() -> datetime:
    return datetime(2030, 1, 1, tzinfo=UTC)


def test_a_status_write_becomes_an_event_about_its_workload() -> None:
    server = EventServer()
    recorder = make_recorder(
        server.api, Settings(pod_name="scheduler-0"), Nondeterminism(random.Random(0), _wall, lambda: "id")
    )
    events = WorkloadEvents(recorder)
    written = RUNNING.model_copy(
        update={"metadata": RUNNING.metadata.model_copy(update={"resource_version": "8"})}
    )

    async def scenario() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recorder.run)
            events.record_status_write(PLACING, written)
            events.record_status_write(written, written)
            await anyio.sleep(1)
            await recorder.aclose(FLUSH_SECONDS)

    run_virtual(scenario)
    assert server.only["regarding"] == {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "Workload",
        "namespace": "openrl-system",
        "name": "trainer",
        "uid": "uid-1",
        "resourceVersion": "8",
    }
    assert server.only["reportingController"] == "openrl.io/open-rl-scheduler"
    assert server.only["reportingInstance"] == "scheduler-0"
    assert (server.only["type"], server.only["reason"]) == ("Normal", "Placed")


@pytest.mark.parametrize("pod_name", ["", "a" * 253])
def test_a_recorder_needs_no_pod_name_and_truncates_a_long_one(pod_name: str) -> None:
    nondeterminism = Nondeterminism(random.Random(0), _wall, lambda: "id")
    make_recorder(EventServer().api, Settings(pod_name=pod_name), nondeterminism)


def test_a_worker_placed_on_two_nodes_within_minutes_has_two_events() -> None:
    elsewhere = workload(Phase.RUNNING, **BOOKED, node_name="gpu-node-1")
    first, second = event_for(PLACING, RUNNING), event_for(PLACING, elsewhere)
    assert first is not None
    assert second is not None
    assert first.distinct != second.distinct
