"""How a live Pod without a seat counts on its claim, before and after its Workload is known."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.workload import Workload
from placement.types import PlacementRequest
from tests.controller.build import Parts, pod, workload
from tests.placement.builders import sizes_of


def parts_with_an_unseated_pod(*pods: Any) -> Parts:
    parts = Parts()
    parts.host()
    parts.shared("claim-a")
    parts.put(*(pods or (pod("unseated", claim_name="claim-a"),)))
    return parts


def another_request(parts: Parts) -> PlacementRequest:
    request = parts.requests.of(workload("another"))
    assert request is not None
    return request


def joinable(parts: Parts) -> bool:
    return parts.fleet.select(another_request(parts)) is not None


EXCLUSIVE = {
    "an exclusive worker": workload("unseated", exclusive=True),
    "a worker on several devices": workload(
        "unseated", accelerator={"mode": "MultiGPU", "memory": "1Gi", "devices": 2}
    ),
    "an exclusive worker whose spec cannot be read": workload("unseated", exclusive=True, role="driver"),
}


@pytest.mark.parametrize("worker", EXCLUSIVE.values(), ids=EXCLUSIVE)
def test_the_pod_of_an_exclusive_worker_makes_its_claim_exclusive(worker: Workload) -> None:
    parts = parts_with_an_unseated_pod()
    assert joinable(parts), "the Workload of the Pod is not known yet"
    parts.put(worker)
    assert not joinable(parts)


def test_the_order_of_workload_and_pod_makes_no_difference() -> None:
    parts = Parts()
    parts.host()
    parts.put(workload("unseated", exclusive=True), pod("unseated", claim_name="claim-a"))
    parts.shared("claim-a")
    assert not joinable(parts)


def test_a_workload_of_the_same_name_and_another_uid_is_ignored() -> None:
    parts = Parts()
    parts.host()
    parts.shared("claim-a")
    parts.put(workload("unseated", exclusive=True, meta={"uid": "uid-of-another"}))
    parts.put(pod("unseated", claim_name="claim-a"))
    assert joinable(parts)


def test_the_pod_of_a_sharing_worker_counts_as_a_seat_of_its_owner() -> None:
    """Two claims differ only in a Pod without a seat: one Pod has the same owner, the other adds an owner."""
    parts = Parts()
    for number in range(2):
        parts.host(f"node-{number}")
        parts.shared(f"claim-{number}", on=f"node-{number}")
    parts.put(pod("x", claim_name="claim-0"), pod("y", claim_name="claim-1"))
    parts.put(workload("x", ownerID="other"), workload("y", ownerID="holder-claim-1"))
    offer = parts.fleet.select(another_request(parts))
    assert offer is not None
    assert offer.claim == "claim-1"


@pytest.mark.parametrize(
    "other",
    [
        pod("unseated", claim_name="claim-a", meta={"namespace": "elsewhere"}),
        pod("unseated", claim_name="claim-a", status={"phase": "Failed"}),
    ],
    ids=["of another namespace", "that has ended"],
)
def test_ended_pods_and_pods_of_other_namespaces_do_not_count(other: Any) -> None:
    parts = parts_with_an_unseated_pod(other)
    parts.put(workload("unseated", exclusive=True))
    assert joinable(parts)


def test_an_ended_pod_frees_nothing_again_when_its_workload_appears() -> None:
    parts = parts_with_an_unseated_pod(pod("unseated", nodeName="node", status={"phase": "Succeeded"}))
    freed: list[None] = []
    parts.fleet_updater.on_capacity_freed = lambda: freed.append(None)
    parts.put(workload("unseated"))
    assert freed == []
    assert sizes_of(parts.fleet).pods == 0
