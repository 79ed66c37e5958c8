"""What a live Pod counts for on a claim where it has no seat: what its worker is, once that is known."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.workload import Workload
from placement.types import PlacementRequest
from tests.controller.build import Parts, pod, workload


def with_a_pod_beside_a_seat(*pods: Any) -> Parts:
    parts = Parts()
    parts.host()
    parts.shared("claim-a")
    parts.put(*(pods or (pod("stray", claim_name="claim-a"),)))
    return parts


def somebody(parts: Parts) -> PlacementRequest:
    request = parts.requests.of(workload("somebody"))
    assert request is not None
    return request


def joinable(parts: Parts) -> bool:
    return parts.fleet.select(somebody(parts)) is not None


EXCLUSIVE = {
    "an exclusive worker": workload("stray", exclusive=True),
    "a worker on several devices": workload(
        "stray", accelerator={"mode": "MultiGPU", "memory": "1Gi", "devices": 2}
    ),
    "an exclusive worker whose spec cannot be read": workload("stray", exclusive=True, role="driver"),
}


@pytest.mark.parametrize("worker", EXCLUSIVE.values(), ids=EXCLUSIVE)
def test_the_pod_of_an_exclusive_worker_keeps_its_claim_to_itself(worker: Workload) -> None:
    parts = with_a_pod_beside_a_seat()
    assert joinable(parts), "whose Pod it is, is not known yet"
    parts.put(worker)
    assert not joinable(parts)


def test_it_is_the_same_when_the_workload_comes_first() -> None:
    parts = Parts()
    parts.host()
    parts.put(workload("stray", exclusive=True), pod("stray", claim_name="claim-a"))
    parts.shared("claim-a")
    assert not joinable(parts)


def test_a_namesake_is_not_its_worker() -> None:
    parts = Parts()
    parts.host()
    parts.shared("claim-a")
    parts.put(workload("stray", exclusive=True, meta={"uid": "uid-of-another"}))
    parts.put(pod("stray", claim_name="claim-a"))
    assert joinable(parts)


def test_the_pod_of_a_sharing_worker_counts_as_a_seat_of_its_owner() -> None:
    """Two claims are alike but for a stray Pod: that of the holder's owner adds no owner, another's does."""
    parts = Parts()
    for number in range(2):
        parts.host(f"node-{number}")
        parts.shared(f"claim-{number}", on=f"node-{number}")
    parts.put(pod("x", claim_name="claim-0"), pod("y", claim_name="claim-1"))
    parts.put(workload("x", ownerID="other"), workload("y", ownerID="holder-claim-1"))
    offer = parts.fleet.select(somebody(parts))
    assert offer is not None
    assert offer.claim == "claim-1"


@pytest.mark.parametrize(
    "stranger",
    [
        pod("stray", claim_name="claim-a", meta={"namespace": "elsewhere"}),
        pod("stray", claim_name="claim-a", status={"phase": "Failed"}),
    ],
    ids=["of another namespace", "that has ended"],
)
def test_other_pods_hold_no_claim_of_ours(stranger: Any) -> None:
    parts = with_a_pod_beside_a_seat(stranger)
    parts.put(workload("stray", exclusive=True))
    assert joinable(parts)


def test_an_ended_pod_is_not_taken_for_a_change_when_its_workload_comes() -> None:
    parts = with_a_pod_beside_a_seat(pod("stray", nodeName="node", status={"phase": "Succeeded"}))
    told: list[None] = []
    parts.fleet_updater.on_capacity_freed = lambda: told.append(None)
    parts.put(workload("stray"))
    assert told == []
    assert parts.fleet.statistics().pods == 0
