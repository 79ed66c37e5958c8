"""Fleets that get devices after a worker began to wait: from none, and of a shape that nobody had."""

from __future__ import annotations

import pytest

from e2e.conftest import Start
from e2e.controlplane import Cluster, Fleet, NodeShape
from e2e.harness.workloads import WorkloadClient, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

SIZES = (24, 32, 40, 48, 64, 72, 80, 90)
NINTH = 96
UNSCHEDULABLE = ("PodScheduled", "False", "Unschedulable")
VISIBLE_SECONDS = 10


def add_node(cluster: Cluster, size: int, *, gpus: int = 1) -> str:
    """Add a node with GPUs of this size in GiB, and return its name."""
    shape = NodeShape(gpus=gpus, gpu_memory=f"{size}Gi")
    (name,) = cluster.create_nodes(Fleet(nodes=1, shape=shape, name_prefix=f"of-{size}"))
    return name


@pytest.mark.parametrize("gpus", [0, 1, 2], ids=["no-fleet", "one-device", "two-devices"])
def test_a_worker_that_no_device_fits_shows_its_demand_and_runs_once_there_is_one(
    cluster: Cluster, openrl: WorkloadClient, start: Start, gpus: int
) -> None:
    """A cluster autoscaler acts on a pending Pod and its claim, which accepts the new device."""
    cluster.create_nodes(Fleet(nodes=0))
    if gpus:
        add_node(cluster, SIZES[0], gpus=gpus)
    start({})
    openrl.submit(workload("trainer", shared=gpus < 2, memory="60Gi", devices=gpus if gpus > 1 else 0))
    openrl.await_pending("trainer", "NoCapacity")

    def is_visible() -> bool:
        conditions = [each for pod in openrl.pods() for each in pod["status"].get("conditions", [])]
        found = [(each["type"], each["status"], each.get("reason")) for each in conditions]
        return UNSCHEDULABLE in found and len(openrl.claims()) == 1

    openrl.await_that(is_visible, "no pending Pod with a claim", timeout_seconds=VISIBLE_SECONDS)

    node = add_node(cluster, 80, gpus=max(gpus, 1))
    assert openrl.await_phase("trainer", "Running")["nodeName"] == node


def test_a_worker_that_waits_gets_a_ninth_larger_shape_before_a_younger_one(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    """Its claim lists the eight shapes of the earlier fleet, so the claim is created again."""
    for size in SIZES:
        add_node(cluster, size, gpus=2)
    start({})
    holders = [f"holder-{size}" for size in SIZES]
    openrl.submit(*(workload(name, shared=False, devices=2) for name in holders))
    openrl.await_phases(holders, "Running")
    openrl.submit(workload("older", shared=False, devices=2))
    openrl.await_pending("older", "WaitingForCapacity")

    node = add_node(cluster, NINTH, gpus=2)

    assert openrl.await_phase("older", "Running")["nodeName"] == node
    openrl.submit(workload("younger", shared=False, devices=2))
    openrl.await_pending("younger", "WaitingForCapacity")
