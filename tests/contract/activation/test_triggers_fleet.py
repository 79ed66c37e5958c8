"""Contract §6: activation by nodes, devices and other Pods, with a retry interval of hours."""

from __future__ import annotations

import anyio
import pytest

from informers.api import ObjectKey
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import NODES, PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    claim_of,
    plain_pod,
    reconciles,
    record_reconciles,
    row,
    settings_with,
    submit,
)
from tests.contract.hours import HOURS, soon

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
NODE_EVENTS = {
    "labels": lambda cluster: cluster.fleet.set_labels("gpu-node-0", {"openrl.io/sampler": "true"}),
    "taints": lambda cluster: cluster.fleet.taint("gpu-node-0", "key", "NoSchedule"),
    "cordon": lambda cluster: cluster.fleet.cordon("gpu-node-0"),
    "Ready": lambda cluster: cluster.fleet.set_ready("gpu-node-0", ready=False),
    "allocatable": lambda cluster: cluster.server.patch(
        NODES, "gpu-node-0", "", {"status": {"allocatable": {"memory": "256Gi"}}}, subresource="status"
    ),
    "a new node": lambda cluster: cluster.fleet.add_node("new", NodeShape(gpu_memory="10Gi")),
    "a node gone": lambda cluster: cluster.fleet.remove_node("idle"),
    "its devices": lambda cluster: cluster.fleet.set_devices("idle", ["12Gi"]),
    "the device class": lambda cluster: cluster.fleet.ensure_device_class(),
}


@pytest.mark.parametrize("event", list(NODE_EVENTS))
async def test_a_fleet_change_activates_all_waiting_workers_oldest_first(
    cluster: SimulatedCluster, event: str
) -> None:
    cluster.fleet.add_nodes(1)
    cluster.fleet.add_node("idle", NodeShape(gpu_memory="10Gi"))
    one_at_a_time = HOURS.model_copy(update={"max_concurrent_reconciles": 1})
    async with simulated_controller(cluster, one_at_a_time) as process:
        await submit(cluster, "resident", shared=False)
        await submit(cluster, "w-c", "w-a", "w-b", shared=False)
        if event == "the device class":
            cluster.fleet.remove_device_class()
            await soon()
        reconciled = record_reconciles(process)
        NODE_EVENTS[event](cluster)
        await soon()
        assert reconciled[:3] == ["w-c", "w-a", "w-b"]
        assert "resident" not in reconciled


async def test_a_kubelet_heartbeat_activates_no_worker(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "resident", "waiter", shared=False)
        reconciled, before = record_reconciles(process), reconciles(process)
        for beat in range(20):
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2030-01-01T01:00:{beat:02}Z"}
            patch = {"status": {"conditions": [ready], "images": [{"names": [f"image-{beat}"]}]}}
            cluster.server.patch(NODES, "gpu-node-0", "", patch, subresource="status")
            await anyio.sleep(1)
        assert reconciled == []
        assert reconciles(process) == before


async def test_a_node_that_is_not_enabled_activates_no_worker(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.fleet.add_node("other", NodeShape(enabled=False))
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "resident", "waiter", shared=False)
        cluster.scheduler.pause()
        reconciled = record_reconciles(process)
        cluster.fleet.cordon("other")
        cluster.fleet.taint("other", "key", "NoSchedule")
        await soon()
        assert reconciled == []


def request_memory(worker: Document, memory: str) -> Document:
    """Return the worker with this host memory request."""
    worker["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
    return worker


@pytest.mark.parametrize("how", ["ends", "is deleted"])
async def test_the_end_of_another_pod_frees_host_memory_for_a_waiting_worker(
    cluster: SimulatedCluster, how: str
) -> None:
    cluster.fleet.add_nodes(1, NodeShape(host_memory="100Gi"))
    cluster.server.create(PODS, "default", plain_pod("batch", memory="60Gi", node="gpu-node-0"))
    async with simulated_controller(cluster, HOURS):
        await submit(cluster, "creator")
        cluster.workloads.submit(request_memory(workload("waiter"), "50Gi"))
        await soon()
        assert row(cluster, "waiter")[0] == "Pending"
        # kube-scheduler's own retry would look like an activation.
        cluster.scheduler.pause()
        key = ObjectKey("default", "batch")
        if how == "ends":
            cluster.kubelet.succeed(key)
        else:
            cluster.server.delete(PODS, "batch", "default", grace_seconds=0)
        await soon()
    assert claim_of(cluster, "waiter") == claim_of(cluster, "creator")


async def test_creation_of_the_missing_device_class_activates_waiting_workers(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    cluster.fleet.remove_device_class()
    async with simulated_controller(cluster, HOURS):
        await submit(cluster, "worker")
        assert row(cluster, "worker")[2] == "InvalidConfiguration"
        cluster.fleet.ensure_device_class()
        await soon()
        assert row(cluster, "worker")[0] == "Running"


async def test_completion_of_a_pool_activates_waiting_workers(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.fleet.set_devices("gpu-node-0", ["80Gi"], slice_count=2)
    async with simulated_controller(cluster, HOURS):
        await submit(cluster, "worker")
        assert row(cluster, "worker")[0] == "Pending"
        cluster.fleet.set_devices("gpu-node-0", ["80Gi"])
        await soon()
        assert row(cluster, "worker")[0] == "Running"


async def test_without_events_every_waiting_worker_is_reconciled_each_interval(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(
        cluster, settings_with(retry_interval_seconds=10.0, placement_timeout_seconds=0.0)
    ) as process:
        await submit(cluster, "resident", "own-claim", shared=False)
        await submit(cluster, "no-claim", memory="200Gi")
        reconciled = record_reconciles(process)
        await anyio.sleep(100)
        counts = {name: reconciled.count(name) for name in dict.fromkeys(reconciled)}
        assert set(counts) == {"own-claim", "no-claim"}
        assert all(9 <= count <= 11 for count in counts.values()), counts
