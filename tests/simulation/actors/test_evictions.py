"""Pods are evicted because of taints on nodes and devices, of deadlines, or of their own fault."""

from __future__ import annotations

import pytest

from informers.api import ObjectKey
from simulation.apiserver.admission import mutations
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, PODS
from simulation.apiserver.store import Change
from simulation.cluster.simulated_cluster import SimulatedCluster

pytestmark = pytest.mark.anyio

NAME = ObjectKey("default", "worker")
TAINT = {"key": "example.com/xid", "value": "79", "effect": "NoExecute"}


async def run_worker(cluster: SimulatedCluster, *edits: mutations.Edit, gpus: int = 1) -> list[Change]:
    """Run a Pod with a device; return its later changes."""
    cluster.fleet.add_nodes(gpus)
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}
    spec: Document = {"devices": {"requests": [request]}}
    cluster.server.create(CLAIMS, "default", {"metadata": {"name": "claim"}, "spec": spec})
    container = {"name": "worker", "image": "worker:1"}
    entry = {"name": "gpu", "resourceClaimName": "claim"}
    pod: Document = {
        "metadata": {"name": "worker"},
        "spec": {"containers": [container], "resourceClaims": [entry]},
    }
    for edit in edits:
        edit(pod)
    cluster.server.create(PODS, "default", pod)
    await cluster.settle()
    changes: list[Change] = []
    cluster.server.store.subscribe(lambda change: changes.append(change) if change.kind is PODS else None)
    return changes


def disruptions(changes: list[Change]) -> set[str]:
    """Return the disruption reasons that the Pod's status has shown."""
    return {
        condition["reason"]
        for change in changes
        for condition in change.record.document["status"].get("conditions") or ()
        if condition["type"] == "DisruptionTarget"
    }


async def test_a_tainted_node_evicts(cluster: SimulatedCluster) -> None:
    changes = await run_worker(cluster)
    cluster.fleet.taint("gpu-node-0", "example.com/broken", "NoExecute")
    await cluster.settle()

    assert disruptions(changes) == {"DeletionByTaintManager"}
    assert cluster.server.documents(PODS) == []


async def test_a_toleration_keeps_a_pod_on_a_tainted_node(cluster: SimulatedCluster) -> None:
    changes = await run_worker(cluster, mutations.toleration("example.com/broken"))
    cluster.fleet.taint("gpu-node-0", "example.com/broken", "NoExecute")
    await cluster.settle()

    assert changes == []


async def test_a_device_that_its_driver_taints_evicts(cluster: SimulatedCluster) -> None:
    changes = await run_worker(cluster)
    cluster.fleet.taint_devices("gpu-node-0", TAINT)
    await cluster.settle()

    assert disruptions(changes) == {"DeletionByDeviceTaintManager"}
    assert cluster.server.documents(PODS) == []


async def test_a_rule_taints_one_device_and_evicts_from_it(cluster: SimulatedCluster) -> None:
    changes = await run_worker(cluster, gpus=2)
    pod = cluster.server.document(PODS, "worker", "default")
    assert pod is not None
    other = {"gpu-node-0": "gpu-node-1", "gpu-node-1": "gpu-node-0"}[pod["spec"]["nodeName"]]
    cluster.fleet.add_taint_rule("other", pool=other, device="gpu-0", taint=TAINT)
    await cluster.settle()
    assert changes == []

    cluster.fleet.add_taint_rule("broken", pool=pod["spec"]["nodeName"], device="gpu-0", taint=TAINT)
    await cluster.settle()
    assert disruptions(changes) == {"DeletionByDeviceTaintManager"}


async def test_a_deadline_ends_a_pod(cluster: SimulatedCluster) -> None:
    await run_worker(cluster, mutations.active_deadline(60))
    await cluster.wait_until(lambda: _status(cluster).get("phase") == "Failed", "no deadline")

    assert _status(cluster)["reason"] == "DeadlineExceeded"
    assert "terminated" in _status(cluster)["containerStatuses"][0]["state"]


async def test_a_pod_that_is_evicted_for_its_own_fault_is_no_disruption_target(
    cluster: SimulatedCluster,
) -> None:
    changes = await run_worker(cluster)
    cluster.kubelet.evict_for_own_fault(NAME)

    assert (_status(cluster)["phase"], _status(cluster)["reason"]) == ("Failed", "Evicted")
    assert disruptions(changes) == set()


def _status(cluster: SimulatedCluster) -> Document:
    return (cluster.server.document(PODS, *reversed(NAME)) or {}).get("status") or {}
