"""`InvariantChecker` on the seat limit (contract §8.1) and the deletion order of claims (contract §4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledger.claim_names import ledger_name, own_claim_name
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.checks.invariants import InvariantChecker
from simulation.cluster.nodes import DRIVER
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import controller_reference, plain_pod

pytestmark = pytest.mark.anyio

LEDGER, CLAIM = "ledger-a", "claim-a"


def create_owned_claim(cluster: SimulatedCluster, *finalizers: str) -> None:
    """Create a ledger and its claim."""
    server, namespace = cluster.server, cluster.workloads.namespace
    ledger = server.create(LEDGERS, namespace, {"metadata": {"name": LEDGER}, "spec": {"claimName": CLAIM}})
    owner = {"apiVersion": LEDGERS.api_version, "kind": LEDGERS.kind, "name": LEDGER, "uid": ledger.uid}
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}
    body = {
        "metadata": {"name": CLAIM, "ownerReferences": [owner], "finalizers": list(finalizers)},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    server.create(CLAIMS, namespace, body)


@pytest.mark.parametrize("finalizers", [(), ("example.com/hold",)])
async def test_a_claim_deleted_before_its_ledger_is_reported_once(
    cluster: SimulatedCluster, finalizers: tuple[str, ...]
) -> None:
    create_owned_claim(cluster, *finalizers)
    invariants, namespace = InvariantChecker(cluster), cluster.workloads.namespace

    cluster.server.delete(CLAIMS, CLAIM, namespace)
    cluster.server.delete(LEDGERS, LEDGER, namespace)
    if finalizers:
        cluster.server.patch(CLAIMS, CLAIM, namespace, {"metadata": {"finalizers": None}})

    (violation,) = invariants.violations
    assert violation.endswith(f"{CLAIM} was deleted before its ledger")


@pytest.mark.parametrize("finalizers", [(), ("example.com/hold",)])
async def test_a_claim_deleted_after_its_ledger_is_no_violation(
    cluster: SimulatedCluster, finalizers: tuple[str, ...]
) -> None:
    create_owned_claim(cluster, *finalizers)
    invariants, namespace = InvariantChecker(cluster), cluster.workloads.namespace

    cluster.server.delete(LEDGERS, LEDGER, namespace)
    cluster.server.delete(CLAIMS, CLAIM, namespace)
    if finalizers:
        cluster.server.patch(CLAIMS, CLAIM, namespace, {"metadata": {"finalizers": None}})

    assert invariants.violations == []


def seat(name: str) -> dict[str, object]:
    return {"workload": name, "workloadUID": f"uid-{name}", "assignmentID": f"booking-{name}"}


@pytest.mark.parametrize(
    ("after", "reported"),
    [
        (("a", "b"), False),  # a limit below the existing seats
        (("a", "b", "c"), True),
        (("a", "c"), True),  # one seat is added while another is removed
        (("b",), False),
    ],
)
async def test_a_write_that_adds_a_seat_above_the_limit_is_reported(
    cluster: SimulatedCluster, after: tuple[str, ...], reported: bool
) -> None:
    server, namespace = cluster.server, cluster.workloads.namespace
    spec = {"claimName": CLAIM, "seats": [seat("a"), seat("b")]}
    server.create(LEDGERS, namespace, {"metadata": {"name": LEDGER}, "spec": spec})
    invariants = InvariantChecker(cluster, limit=lambda: 1)

    server.patch(LEDGERS, LEDGER, namespace, {"spec": {"seats": [seat(name) for name in after]}})

    assert [f"the limit is {1}" in violation for violation in invariants.violations] == [True] * reported


def book_seat(cluster: SimulatedCluster, uid: str) -> None:
    claim = own_claim_name("worker", uid)
    seat = {"workload": "worker", "workloadUID": uid, "assignmentID": "one"}
    body = {"metadata": {"name": ledger_name(claim)}, "spec": {"claimName": claim, "seats": [seat]}}
    cluster.server.create(LEDGERS, cluster.workloads.namespace, body)


def create_pod(cluster: SimulatedCluster, uid: str) -> None:
    body = plain_pod("orw-worker", owner=controller_reference("worker", uid))
    cluster.server.create(PODS, cluster.workloads.namespace, body)


ADD: dict[str, Callable[[SimulatedCluster, str], None]] = {"seat": book_seat, "Pod": create_pod}


@pytest.mark.parametrize("added", ADD)
@pytest.mark.parametrize(
    ("late", "deleting", "reported"), [(True, True, False), (False, True, True), (True, False, True)]
)
async def test_only_late_additions_for_a_workload_under_deletion_are_exempt(
    cluster: SimulatedCluster, added: str, late: bool, deleting: bool, reported: bool
) -> None:
    server, namespace = cluster.server, cluster.workloads.namespace
    invariants = InvariantChecker(cluster, is_late_write=lambda: late)
    body = workload("worker")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.workloads.submit(body)
    if deleting:
        cluster.workloads.delete("worker")
    ADD[added](cluster, server.get(WORKLOADS, "worker", namespace).uid)
    if not deleting:
        cluster.workloads.delete("worker")
    server.patch(WORKLOADS, "worker", namespace, {"metadata": {"finalizers": None}})

    matches = [text.endswith(f"worker was deleted and left a {added}") for text in invariants.violations]
    assert matches == [True] * reported
