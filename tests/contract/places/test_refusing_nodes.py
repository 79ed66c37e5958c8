"""REF-1: shared claims on nodes with too small a disk, and a free GPU on one with a large disk."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from controller.config.flags import Settings
from informers.api import ObjectKey
from placement.quantity import parse_bytes
from placement.types import Amounts
from simulation.actors.fitting import Use, rejections
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import NODES
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import row

pytestmark = pytest.mark.anyio

DISK = "ephemeral-storage"


@pytest.fixture(autouse=True)
def _disks_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler refuses a node with too little disk; the simulated one leaves that out."""

    def refusals(pod: Document, request: Amounts, node: Record, use: Use) -> Iterator[str]:
        yield from rejections(pod, request, node, use)
        asked = pod["spec"]["containers"][0].get("resources", {}).get("requests", {}).get(DISK, 0)
        if parse_bytes(asked) > parse_bytes(node.document["status"]["allocatable"].get(DISK, 0)):
            yield f"Insufficient {DISK}"

    monkeypatch.setattr("simulation.actors.scheduling.rejections", refusals)


def set_disk(cluster: SimulatedCluster, node: str, size: str) -> None:
    def change(document: Document) -> None:
        document["status"]["allocatable"][DISK] = size

    cluster.server.edit(NODES, ObjectKey("", node), change, subresource="status")


async def furnish(cluster: SimulatedCluster, claims: int) -> None:
    """Nodes with small disks and one worker that shares on each; then a free node with a large disk."""
    names = [f"small-{number:02}" for number in range(claims)]
    cluster.fleet.ensure_device_class()
    for name in names:
        cluster.fleet.add_node(name)
        set_disk(cluster, name, "100Gi")
        cluster.workloads.submit(workload(f"creator-{name}"))
        await cluster.settle()
        cluster.fleet.cordon(name)  # so that the next creator has a node of its own
    for name in names:
        cluster.fleet.cordon(name, on=False)
    cluster.fleet.add_node("large")
    set_disk(cluster, "large", "2Ti")
    await cluster.settle()
    assert len(cluster.workloads.in_phase("Running")) == claims


def hungry(name: str) -> Document:
    document = workload(name)
    document["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][DISK] = "500Gi"
    return document


@pytest.mark.parametrize("claims", [2, 3, 16])
async def test_the_free_device_is_tried_in_time(cluster: SimulatedCluster, claims: int) -> None:
    """However many claims refuse the worker for a reason that the controller does not know: it gets the
    free device within the time limit for placement, 15 minutes, with two of them within 5."""
    async with simulated_controller(cluster, Settings(leader_elect=False)):
        await furnish(cluster, claims)
        cluster.workloads.submit(hungry("worker"))
        await anyio.sleep(300 if claims == 2 else 890)
        assert row(cluster, "worker")[0] == "Running"
        assert cluster.workloads.status("worker")["nodeName"] == "large"


async def test_without_a_time_limit_it_comes_to_an_end(cluster: SimulatedCluster) -> None:
    """With 16 claims that refuse and no time limit, the worker runs within some hours, not never."""
    settings = Settings(leader_elect=False, placement_timeout_seconds=0.0)
    async with simulated_controller(cluster, settings):
        await furnish(cluster, 16)
        cluster.workloads.submit(hungry("worker"))
        await anyio.sleep(6 * 3600)
        assert row(cluster, "worker")[0] == "Running"
