"""The bare writer sends the same bodies as the controller, or the comparison would be invalid."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from bench.request_bodies import DEVICE_GIB, DRIVER, Placement
from bench.request_bodies import Workload as BareWorkload
from controller.api.claim_document import claim_document
from controller.api.reasons import Phase, ReasonCode, sentence
from controller.api.requests import PlacementRequests
from controller.api.status import Assignment, PlacedUpdate, PlacementDetails, StatusUpdate, status_patch
from controller.api.worker_pod_document import pod_document
from controller.api.workload import Workload
from e2e.controlplane import WORKER_NAMESPACE
from e2e.harness.workloads import workload
from ledger.claim_names import ledger_name, own_claim_name
from ledger.state import Seat, ledger_document
from placement.device_request import device_requests
from placement.quantity import canonical_bytes, whole_gib
from placement.types import DeviceShape

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
ASSIGNMENT_ID = "11111111-2222-3333-4444-555555555555"
DOCUMENT: dict[str, Any] = {
    **workload("worker-007", shared=False),
    "metadata": {
        "name": "worker-007",
        "namespace": WORKER_NAMESPACE,
        "uid": "0a1b2c3d-0000-4000-8000-000000000000",
        "resourceVersion": "42",
        "generation": 3,
    },
}
OURS = Workload.model_validate(DOCUMENT)
BARE = Placement.of(msgspec.convert(DOCUMENT, BareWorkload), ASSIGNMENT_ID)
CLAIM = own_claim_name(OURS.name, OURS.uid)
ASSIGNMENT = Assignment(CLAIM, ASSIGNMENT_ID)
SHAPES = (DeviceShape(1, DEVICE_GIB),)
REQUEST = PlacementRequests(0, "gpu.example.com").validate(OURS)
MEMORY = whole_gib(REQUEST.memory_bytes)


def test_the_names_follow_the_contract() -> None:
    assert (BARE.claim, BARE.ledger) == (CLAIM, ledger_name(CLAIM))


def test_the_ledger_holds_the_same_seat() -> None:
    seat = Seat(
        workload=OURS.name,
        workload_uid=OURS.uid,
        assignment_id=ASSIGNMENT_ID,
        owner_id=REQUEST.owner_key,
        exclusive=not REQUEST.shareable,
        host_request=canonical_bytes(REQUEST.host.memory_bytes or 0),
    )

    assert BARE.ledger_document() == ledger_document(CLAIM, WORKER_NAMESPACE, [seat])


def test_the_claim_requests_the_same_devices() -> None:
    requests = device_requests(SHAPES, memory_bytes=REQUEST.memory_bytes, device_class=DRIVER, driver=DRIVER)

    assert BARE.claim_document("ledger-uid") == claim_document(
        CLAIM, WORKER_NAMESPACE, "ledger-uid", requests
    )


def test_the_pod_is_the_same() -> None:
    assert BARE.pod_document() == pod_document(OURS, ASSIGNMENT, ())


def test_the_assignment_patch_is_the_same() -> None:
    update = StatusUpdate(
        phase=Phase.PLACING,
        reason=sentence(ReasonCode.CREATED_CLAIM, SHAPES[0].name),
        assignment=ASSIGNMENT,
        details=PlacementDetails(memory_per_device=MEMORY),
    )

    assert BARE.placing_patch("42") == status_patch(OURS, update, NOW)


def test_the_patch_for_a_running_pod_is_the_same() -> None:
    update = StatusUpdate(
        phase=Phase.RUNNING,
        reason="",
        condition=PlacedUpdate(True, ReasonCode.PLACED),
        details=PlacementDetails(
            pod_name=BARE.pod, node_name="node-1", device_count=1, memory_per_device=MEMORY
        ),
    )

    assert BARE.running_patch("42", "node-1", NOW) == status_patch(OURS, update, NOW)
