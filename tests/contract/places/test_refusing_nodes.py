"""Shared claims on nodes that refuse a worker for a reason outside the fleet model, such as a small disk."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from controller.config.flags import PlacementStrategy, Settings
from controller.reconcile.losses.memory import LOSS_DELAY_RANGE_SECONDS
from informers.api import ObjectKey
from placement.quantity import parse_bytes
from placement.types import Amounts
from simulation.actors.fitting import Use, rejections
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import NODES, PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import claim_of, count_calls, delete_pod, row, submit

pytestmark = pytest.mark.anyio

DISK = "ephemeral-storage"


@pytest.fixture(autouse=True)
def _disks_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler refuses a node with too little disk space; the simulated scheduler does not check it."""

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
    """Add nodes with small disks and one sharing worker each, and then a free node with a large disk."""
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
    """However many claims refuse the worker for a reason unknown to the controller, it gets the free device.

    The limit is the placement timeout of 15 minutes, and 5 minutes if two claims refuse it.
    """
    async with simulated_controller(cluster, Settings(leader_elect=False)):
        await furnish(cluster, claims)
        cluster.workloads.submit(hungry("worker"))
        await anyio.sleep(300 if claims == 2 else 890)
        assert row(cluster, "worker")[0] == "Running"
        assert cluster.workloads.status("worker")["nodeName"] == "large"


async def test_without_a_time_limit_it_comes_to_an_end(cluster: SimulatedCluster) -> None:
    """With 16 claims that refuse the worker and no time limit, the worker still runs within some hours."""
    settings = Settings(leader_elect=False, placement_timeout_seconds=0.0)
    async with simulated_controller(cluster, settings):
        await furnish(cluster, 16)
        cluster.workloads.submit(hungry("worker"))
        await anyio.sleep(6 * 3600)
        assert row(cluster, "worker")[0] == "Running"


@pytest.mark.parametrize("strategy", list(PlacementStrategy))
async def test_the_free_device_needs_at_most_two_attempts(
    cluster: SimulatedCluster, strategy: PlacementStrategy
) -> None:
    """After one refusal the worker gets its own claim, for which kube-scheduler finds a node that fits."""
    settings = Settings(leader_elect=False, placement_strategy=strategy)
    async with simulated_controller(cluster, settings):
        await furnish(cluster, 4)
        mark = len(cluster.audit)
        cluster.workloads.submit(hungry("worker"))
        await anyio.sleep(30)
        assert row(cluster, "worker")[0] == "Running"
        assert count_calls(cluster, "create", PODS, since=mark) <= 2


async def test_without_a_free_device_the_attempts_become_rare(cluster: SimulatedCluster) -> None:
    """All 16 nodes refuse the worker. It waits with its own claim for 2, 4, ... 30 minutes between seats."""
    settings = Settings(leader_elect=False, placement_timeout_seconds=0.0)
    async with simulated_controller(cluster, settings):
        await furnish(cluster, 16)
        cluster.fleet.cordon("large")
        mark, joined = len(cluster.audit), list[str]()
        cluster.workloads.submit(hungry("worker"))
        for _ in range(2 * 360):
            await anyio.sleep(10)
            claim = claim_of(cluster, "worker")
            if "worker" not in claim and claim and joined[-1:] != [claim]:
                joined.append(claim)
        assert len(set(joined)) == len(joined), "a node that refused less often comes first"
        assert 5 <= len(joined) <= 8
        assert count_calls(cluster, "create", PODS, since=mark) <= 2 * len(joined) + 2
        seen = row(cluster, "worker")[3]
        assert "claims that fit have just refused this worker" in seen
        cluster.fleet.cordon("large", on=False)
        await anyio.sleep(60)
        assert cluster.workloads.status("worker")["nodeName"] == "large", "its own claim was there to ask"


async def test_no_second_controller_moves_the_worker_back(cluster: SimulatedCluster) -> None:
    """Both processes regard the node as closed, whichever of them acted on the refusal."""
    settings = Settings(leader_elect=False, placement_timeout_seconds=0.0)
    async with (
        simulated_controller(cluster, settings, identity="one"),
        simulated_controller(cluster, settings, identity="two"),
    ):
        await furnish(cluster, 3)
        mark = len(cluster.audit)
        cluster.workloads.submit(hungry("worker"))
        await anyio.sleep(120)
        assert cluster.workloads.status("worker")["nodeName"] == "large"
        assert count_calls(cluster, "create", PODS, since=mark) <= 4


async def test_the_pod_of_a_joiner_requires_the_node_of_its_claim(cluster: SimulatedCluster) -> None:
    """Once the Pod is alone, its claim may lose its device. This Pod must not get it one on another node."""
    async with simulated_controller(cluster, Settings(leader_elect=False)):
        cluster.fleet.add_nodes(2)
        await submit(cluster, "creator", "worker")
        terms = {name: required_fields(cluster, name) for name in ("creator", "worker")}
    named = [{"key": "metadata.name", "operator": "In", "values": ["gpu-node-0"]}]
    assert terms == {"creator": [None, None], "worker": [named, named]}


def required_fields(cluster: SimulatedCluster, name: str) -> list[object]:
    pod = cluster.workloads.pod(name)
    assert pod is not None
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [term.get("matchFields") for term in required["nodeSelectorTerms"]]


async def test_a_worker_gets_at_most_forty_pods_in_an_hour(cluster: SimulatedCluster) -> None:
    """Somebody deletes each Pod at once. Whatever the cause, no process creates Pods endlessly."""
    settings = Settings(leader_elect=False, placement_timeout_seconds=0.0)
    async with simulated_controller(cluster, settings):
        cluster.fleet.add_nodes(1)
        cluster.scheduler.pause()
        mark = len(cluster.audit)
        cluster.workloads.submit(workload("worker"))
        for _ in range(1800):
            await anyio.sleep(2)
            if cluster.workloads.pod("worker"):
                delete_pod(cluster, "worker")
        made = count_calls(cluster, "create", PODS, since=mark)
        assert made <= 40
        cluster.scheduler.resume()
        await anyio.sleep(LOSS_DELAY_RANGE_SECONDS[1] + 200)
        assert row(cluster, "worker")[0] == "Running"
