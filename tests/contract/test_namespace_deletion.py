"""Deletion of the workers' namespace: all workers are removed, and later workers are placed."""

from __future__ import annotations

import pytest

from informers.api import ObjectKey, WatchEventType
from simulation.apiserver.kinds import CLAIMS, LEDGERS, NAMESPACES, PODS, WORKLOADS, Kind
from simulation.checks.invariants import violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import submit
from tests.contract.hours import HOURS

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
ONE_SEAT = HOURS.model_copy(update={"max_seats_per_claim": 1})


def namespace_gone(cluster: SimulatedCluster) -> bool:
    return cluster.server.store.get(NAMESPACES, ObjectKey("", NAMESPACE)) is None


async def test_deleting_the_namespace_removes_running_and_waiting_workers(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, ONE_SEAT):
        await submit(cluster, *(f"worker-{number}" for number in range(6)))
        assert cluster.workloads.in_phase("Running")
        assert cluster.workloads.in_phase("Pending")

        cluster.server.delete(NAMESPACES, NAMESPACE)
        await cluster.wait_until(lambda: namespace_gone(cluster), "the namespace is held")
        assert cluster.workloads.is_empty()

        cluster.server.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
        cluster.workloads.submit(workload("worker-0"))
        await cluster.settle()
        assert cluster.workloads.status("worker-0")["phase"] == "Running"
        assert violations_at_rest(cluster) == []


async def test_no_creation_is_retried_without_backoff_while_the_namespace_terminates(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    held = workload("held")
    held["metadata"]["finalizers"] = ["example.com/other"]
    async with simulated_controller(cluster, HOURS):
        cluster.workloads.submit(held, workload("worker"))
        await cluster.settle()
        assert set(cluster.workloads.in_phase("Running")) == {"held", "worker"}

        cluster.server.delete(NAMESPACES, NAMESPACE)
        await cluster.settle()
        assert not namespace_gone(cluster)
        assert set(cluster.workloads.statuses()) == {"held"}
        assert [*cluster.workloads.pods(), *cluster.workloads.claims(), *cluster.workloads.ledgers()] == []
        refused = [
            entry for entry in cluster.calls() if entry.error is not None and entry.error.status == 403
        ]
        assert len(refused) <= 10, [str(entry) for entry in refused]

        key = ObjectKey(NAMESPACE, "held")
        cluster.server.edit(WORKLOADS, key, lambda body: body["metadata"].update(finalizers=[]))
        await cluster.wait_until(lambda: namespace_gone(cluster), "the namespace is held")


async def test_pods_are_deleted_before_anything_else(cluster: SimulatedCluster) -> None:
    """Claims, ledgers and Workloads are deleted only after the last Pod."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS):
        await submit(cluster, "first", "second")
    since = cluster.server.store.revision
    cluster.server.delete(NAMESPACES, NAMESPACE)
    await cluster.settle()

    def deletions(kind: Kind) -> list[int]:
        return [
            change.revision
            for change in cluster.server.history(kind)
            if change.record.deleting or change.type is WatchEventType.DELETED
        ]

    last_pod = deletions(PODS)[-1]
    assert since < last_pod < min(deletions(kind)[0] for kind in (CLAIMS, LEDGERS, WORKLOADS))


async def test_a_finalizer_of_the_namespace_is_awaited_without_requests(cluster: SimulatedCluster) -> None:
    cluster.server.create(NAMESPACES, "", {"metadata": {"name": "held", "finalizers": ["example.com/other"]}})
    cluster.server.delete(NAMESPACES, "held")
    await cluster.settle()

    key = ObjectKey("", "held")
    assert cluster.server.get(NAMESPACES, "held").document["spec"] == {"finalizers": []}
    cluster.server.edit(NAMESPACES, key, lambda body: body["metadata"].pop("finalizers"))
    assert cluster.server.store.get(NAMESPACES, key) is None
