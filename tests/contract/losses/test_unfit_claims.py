"""A claim that is allocated again never gives a worker a place that it could not have chosen."""

from __future__ import annotations

from copy import deepcopy

import anyio
import pytest

from simulation.actors.base import Delays
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import claim_of, count_calls, delete_pod, pod_uid, row, settings_with, submit

pytestmark = pytest.mark.anyio

FOREVER = settings_with(placement_timeout_seconds=0.0)
LARGE, SMALL = NodeShape(gpu_memory="80Gi"), NodeShape(gpu_memory="24Gi")


@pytest.mark.parametrize("drained", [False, True], ids=["evicted", "drained"])
async def test_a_guest_never_runs_on_a_smaller_device_that_its_claim_got(drained: bool) -> None:
    async with (
        SimulatedCluster(delays=Delays(claim_release_seconds=0.001)) as cluster,
        simulated_controller(cluster, FOREVER, latency_seconds=lambda _request: 0.01),
    ):
        cluster.fleet.add_nodes(1, LARGE)
        cluster.fleet.add_node("small", SMALL)
        cluster.fleet.cordon("small")
        await submit(cluster, "owner", memory="20Gi")
        await submit(cluster, "guest", memory="60Gi")
        assert claim_of(cluster, "guest") == claim_of(cluster, "owner")
        cluster.fleet.cordon("small", on=False)
        cluster.fleet.add_node("other", LARGE)
        cluster.workloads.delete("owner")
        await cluster.settle()
        if drained:
            cluster.fleet.cordon("gpu-node-0")
        delete_pod(cluster, "guest")
        await anyio.sleep(300)
        assert cluster.workloads.in_phase("Running") == ["guest"]
        assert cluster.workloads.status("guest")["nodeName"] != "small"


@pytest.mark.parametrize("timestamp", ["2031-01-01T00:00:00Z", ""], ids=["with a time", "without a time"])
async def test_a_guest_that_runs_is_moved_off_a_smaller_device(
    cluster: SimulatedCluster, timestamp: str
) -> None:
    cluster.fleet.add_nodes(1, LARGE)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "owner", memory="20Gi")
        await submit(cluster, "guest", memory="60Gi")
        cluster.fleet.add_node("small", SMALL)
        cluster.fleet.add_node("other", LARGE)
        await cluster.settle()
        before = pod_uid(cluster, "guest")

        key = next(c for c in cluster.server.store.all(CLAIMS)).key
        status: Document = cluster.server.document(CLAIMS, key.name, key.namespace)["status"]  # type: ignore[index]

        def release(document: Document) -> None:
            document["status"] = {}

        def allocate_anew(document: Document) -> None:
            document["status"] = deepcopy(status)
            allocation = document["status"]["allocation"]
            allocation.pop("allocationTimestamp", None)
            allocation |= {"allocationTimestamp": timestamp} if timestamp else {}
            allocation["devices"]["results"][0]["pool"] = "small"
            (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
            term["matchFields"][0]["values"] = ["small"]

        cluster.server.edit(CLAIMS, key, release, subresource="status")
        cluster.server.edit(CLAIMS, key, allocate_anew, subresource="status")
        await cluster.wait_until(
            lambda: row(cluster, "guest")[2] == "ReplacingWedgedClaim", "it does not leave the claim"
        )
        assert "the device is too small" in row(cluster, "guest")[3]
        await anyio.sleep(120)
        assert row(cluster, "guest")[0] == "Running"
        assert pod_uid(cluster, "guest") != before
        assert claim_of(cluster, "guest") != claim_of(cluster, "owner")
        assert row(cluster, "owner")[0] == "Running"


async def test_a_capacity_that_is_published_anew_moves_nobody(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1, LARGE)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "owner", memory="20Gi")
        await submit(cluster, "guest", memory="60Gi")
        before, since = pod_uid(cluster, "guest"), len(cluster.audit)
        cluster.fleet.set_devices("gpu-node-0", ["40Gi"])
        await anyio.sleep(120)
        assert pod_uid(cluster, "guest") == before
        assert count_calls(cluster, "delete", PODS, since=since) == 0


async def test_a_guest_leaves_a_claim_that_lost_its_device(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "owner", "guest")
        shared = claim_of(cluster, "owner")
        cluster.fleet.cordon("gpu-node-0")
        cluster.fleet.add_node("other")
        cluster.workloads.delete("owner")
        await cluster.settle()
        delete_pod(cluster, "guest")
        await anyio.sleep(60)
        assert row(cluster, "guest")[0] == "Running"
        assert claim_of(cluster, "guest") != shared
