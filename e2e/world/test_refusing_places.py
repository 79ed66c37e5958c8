"""Places that refuse or lose a worker for reasons that its template does not show."""

from __future__ import annotations

import pytest

from e2e.conftest import Start
from e2e.controlplane import Cluster, Fleet, NodeShape, Object
from e2e.controlplane.fleet import RESOURCE_SLICES, cordon, set_devices, slice_name
from e2e.harness.workloads import PODS, WorkloadClient, one_gpu_nodes, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

PLACED_SECONDS = 40
XID = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}


def with_host_port(trainer: Object, port: int) -> Object:
    """Let a worker listen on a port of its node."""
    trainer["spec"]["template"]["spec"]["containers"][0]["ports"] = [
        {"containerPort": port, "hostPort": port}
    ]
    return trainer


def await_nodes(openrl: WorkloadClient, nodes: dict[str, str]) -> None:
    """Wait until these workers run on these nodes."""

    def reached() -> bool:
        statuses = openrl.statuses()
        found = {name: statuses[name].get("nodeName") for name in nodes}
        return found == nodes and set(nodes) <= openrl.in_phase("Running")

    openrl.await_that(reached, f"{nodes}: {openrl.statuses()}", timeout_seconds=PLACED_SECONDS)


@pytest.mark.timeout(300)
def test_four_workers_with_one_host_port_run_on_four_nodes(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    nodes = one_gpu_nodes(cluster, 4)
    start({"--retry-interval": "5s"})

    openrl.submit(*(with_host_port(workload(f"trainer-{n}"), 29500) for n in range(4)))

    names = {f"trainer-{n}" for n in range(4)}
    openrl.await_that(lambda: openrl.in_phase("Running") == names, "not all four run", timeout_seconds=200)
    assert {status["nodeName"] for status in openrl.statuses().values()} == set(nodes)


def test_an_evicted_guest_never_runs_on_a_device_that_is_too_small(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    (large,) = cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=1), name_prefix="large"))
    start({"--retry-interval": "5s"})
    openrl.submit(workload("owner", memory="20Gi"))
    openrl.await_phase("owner", "Running")
    openrl.submit(workload("guest", memory="60Gi"))
    openrl.await_phase("guest", "Running")
    assert len(openrl.claims()) == 1
    cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=1, gpu_memory="24Gi"), name_prefix="small"))
    (other,) = cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=1), name_prefix="other"))
    openrl.delete("owner")
    openrl.await_that(lambda: len(openrl.pods()) == 1, "the owner's Pod is left")

    cordon(cluster.api, large)
    cluster.api.delete(f"{PODS}/orw-guest")

    await_nodes(openrl, {"guest": other})
    device = openrl.claims()[0]["status"]["allocation"]["devices"]["results"][0]
    assert device["pool"] == other


def test_workers_leave_a_shared_device_that_evicts_them(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    (faulty,) = one_gpu_nodes(cluster, 1)
    start({"--retry-interval": "5s"})
    names = ("first", "second")
    openrl.submit(*(workload(name) for name in names))
    openrl.await_phases(names, "Running")
    (healthy,) = cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=1), name_prefix="healthy"))

    path = f"{RESOURCE_SLICES}/{slice_name(faulty)}"
    published = cluster.api.get(path)
    for device in published["spec"]["devices"]:
        device["taints"] = [XID]
    cluster.api.replace(path, published)

    await_nodes(openrl, dict.fromkeys(names, healthy))
    for status in openrl.statuses().values():
        assert status["restarts"] <= 2


def test_a_capacity_that_is_published_anew_moves_nobody(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    (node,) = one_gpu_nodes(cluster, 1)
    start({"--retry-interval": "1s"})
    openrl.submit(workload("owner", memory="20Gi"), workload("guest", memory="60Gi"))
    openrl.await_phases(["owner", "guest"], "Running")
    before = {pod["metadata"]["uid"] for pod in openrl.pods()}

    set_devices(cluster.api, node, ["40Gi"])
    openrl.submit(workload("later", memory="50Gi"))
    openrl.await_pending("later", "NoCapacity")

    assert {pod["metadata"]["uid"] for pod in openrl.pods() if pod["spec"].get("nodeName")} == before
