"""Host memory is counted as kube-scheduler does, and freed memory activates the workers that wait for it."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from informers.api import ObjectKey
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import claim_of, plain_pod, row, settings_with, submit
from tests.contract.hours import HOURS

pytestmark = pytest.mark.anyio

SETTINGS = settings_with(placement_timeout_seconds=0.0)
GUEST = ObjectKey("default", "guest")
LARGE, SMALL = {"memory": "450Gi"}, {"memory": "1Gi"}


def large_worker(name: str = "worker") -> Document:
    """Return a worker of 200Gi, which does not fit on a node of 512Gi beside a Pod of 450Gi."""
    document = workload(name)
    document["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "200Gi"
    return document


def edit_guest(cluster: SimulatedCluster, change: Callable[[Document], object]) -> None:
    """Write the guest as the kubelet and the resize subresource do."""
    document = cluster.server.get(PODS, GUEST.name, GUEST.namespace).copy()
    change(document)
    cluster.server.store.put(PODS, document)


def container_status(actual: Document | None, allocated: Document) -> Document:
    """Return the status of the guest's container."""
    status: Document = {"name": "main", "state": {"running": {}}, "allocatedResources": allocated}
    return status if actual is None else {**status, "resources": {"requests": actual}}


def resize_condition(type_: str, reason: str = "") -> Document:
    """Return a condition of an in-place resize."""
    return {"type": type_, "status": "True", "reason": reason}


@pytest.mark.parametrize(
    ("spec", "status", "condition", "joins"),
    [
        (SMALL, container_status(LARGE, LARGE), resize_condition("PodResizeInProgress"), False),
        (SMALL, container_status(LARGE, SMALL), resize_condition("PodResizeInProgress"), False),
        (SMALL, container_status(SMALL, LARGE), resize_condition("PodResizePending", "Deferred"), False),
        (LARGE, container_status(SMALL, SMALL), resize_condition("PodResizePending", "Deferred"), False),
        (LARGE, container_status(SMALL, SMALL), resize_condition("PodResizePending", "Infeasible"), True),
        (SMALL, container_status(LARGE, LARGE), resize_condition("PodResizePending", "Infeasible"), False),
        (SMALL, container_status(None, LARGE), resize_condition("Ready"), True),
        (SMALL, container_status(SMALL, SMALL), resize_condition("Ready"), True),
    ],
)
async def test_a_pod_that_is_resized_counts_with_the_larger_request_unless_the_resize_is_infeasible(
    cluster: SimulatedCluster,
    spec: Document,
    status: Document,
    condition: Document,
    joins: bool,
) -> None:
    async with simulated_controller(cluster, SETTINGS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        cluster.server.create(PODS, "default", plain_pod("guest", memory="1Gi", node="gpu-node-0"))
        await cluster.settle()

        def resize(document: Document) -> None:
            document["spec"]["containers"][0]["resources"]["requests"] = dict(spec)
            document["status"]["containerStatuses"] = [status]
            document["status"]["conditions"] = [condition]

        edit_guest(cluster, resize)
        cluster.workloads.submit(large_worker())
        await anyio.sleep(60)
        assert (claim_of(cluster, "worker") == claim_of(cluster, "first")) is joins


def shrink(cluster: SimulatedCluster) -> None:
    """Shrink the guest in place."""
    edit_guest(cluster, lambda d: d["spec"]["containers"][0]["resources"].update(requests=dict(SMALL)))


def finish_shrinking(cluster: SimulatedCluster) -> None:
    """Report that the kubelet has carried out the requested shrinking of the guest."""

    def begun(document: Document) -> None:
        document["spec"]["containers"][0]["resources"]["requests"] = dict(SMALL)
        document["status"]["containerStatuses"] = [container_status(LARGE, SMALL)]

    def done(document: Document) -> None:
        document["status"]["containerStatuses"] = [container_status(SMALL, SMALL)]

    edit_guest(cluster, begun)
    edit_guest(cluster, done)


def end(cluster: SimulatedCluster) -> None:
    """End the guest's process."""
    edit_guest(cluster, lambda document: document["status"].update(phase="Succeeded"))


def delete(cluster: SimulatedCluster) -> None:
    """Remove the guest at once."""
    cluster.server.store.remove(PODS, GUEST)


def replace_elsewhere(cluster: SimulatedCluster) -> None:
    """Replace the guest by a Pod of the same name on another node."""
    cluster.server.store.remove(PODS, GUEST)
    cluster.server.create(PODS, "default", plain_pod("guest", memory="450Gi", node="elsewhere"))


@pytest.mark.parametrize("free_memory", [shrink, finish_shrinking, end, delete, replace_elsewhere])
async def test_whatever_frees_host_memory_activates_those_that_wait_for_it(
    cluster: SimulatedCluster, free_memory: Callable[[SimulatedCluster], None]
) -> None:
    """The worker runs soon after memory is freed; a retry would take hours here."""
    async with simulated_controller(cluster, HOURS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        cluster.server.create(PODS, "default", plain_pod("guest", memory="450Gi", node="gpu-node-0"))
        await cluster.settle()
        cluster.workloads.submit(large_worker())
        await cluster.settle()
        assert row(cluster, "worker")[0] == "Pending"
        free_memory(cluster)
        await anyio.sleep(60)
        assert row(cluster, "worker")[0] == "Running"


async def test_a_pod_without_a_seat_that_leaves_a_claim_activates_those_that_wait(
    cluster: SimulatedCluster,
) -> None:
    """A foreign Pod on the claim keeps workers from joining it, bound or not, until the Pod is gone."""
    async with simulated_controller(cluster, HOURS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        intruder = plain_pod("intruder", claim=claim_of(cluster, "first"))
        intruder["spec"]["schedulerName"] = "nobody"
        cluster.server.create(PODS, "openrl-system", intruder)
        await cluster.settle()
        await submit(cluster, "worker")
        assert row(cluster, "worker")[0] == "Pending"
        cluster.server.delete(PODS, "intruder", "openrl-system")
        await anyio.sleep(60)
        assert row(cluster, "worker")[0] == "Running"
