"""How a worker ended is read from its own container, and a Pod that failed on its own account has failed."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from simulation.apiserver.documents import Document, format_time
from simulation.apiserver.kinds import PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import holdings, pod_uid, row, settings_with, submit

pytestmark = pytest.mark.anyio

FOREVER = settings_with(placement_timeout_seconds=0.0)
WORDS = 'Usage of EmptyDir volume "models" exceeds the limit "10Gi".'
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "worker", "image": "worker:1"}]}}


def set_containers(cluster: SimulatedCluster, worker: Document, **status: Any) -> None:
    """Set the state of the worker's container, beside a proxy that goes on."""

    def change(document: Document) -> None:
        document["status"] |= {
            "containerStatuses": [
                {"name": "worker", "state": worker},
                {"name": "proxy", "state": {"running": {}}},
            ],
            **status,
        }

    cluster.server.edit(PODS, cluster.workloads.pod_key("worker"), change, subresource="status")


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
async def test_a_proxy_that_outlives_the_worker_does_not_hide_its_end(
    cluster: SimulatedCluster, code: int, phase: str
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "worker", template=TEMPLATE)
        now = format_time(cluster.clock())
        set_containers(cluster, {"terminated": {"exitCode": code, "reason": "Ended", "finishedAt": now}})
        await anyio.sleep(20)
        assert row(cluster, "worker")[0] == "Running", "the others have time to end"
        await anyio.sleep(20)
        assert row(cluster, "worker")[0] == phase
        await cluster.settle()
        assert holdings(cluster) == [], "the proxy does not keep the device"


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
async def test_a_container_that_is_restarted_has_not_ended(cluster: SimulatedCluster, policy: str) -> None:
    cluster.fleet.add_nodes(1)
    template = {"spec": TEMPLATE["spec"] | {"restartPolicy": policy}}
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "worker", template=template)
        set_containers(cluster, {"terminated": {"exitCode": 1, "reason": "Error"}})
        await anyio.sleep(120)
        assert row(cluster, "worker")[0] == "Running"


@pytest.mark.parametrize(
    "status",
    [
        {"reason": "Evicted", "initContainerStatuses": [{"name": "fetch", "state": {"running": {}}}]},
        {"reason": "DeadlineExceeded"},
    ],
    ids=["evicted while an init container runs", "deadline before a container ran"],
)
async def test_a_pod_that_failed_on_its_own_account_is_not_made_again(
    cluster: SimulatedCluster, status: Document
) -> None:
    cluster.fleet.add_nodes(1)
    cluster.kubelet.hold(cluster.workloads.pod_key("worker"))
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "worker")
        before = pod_uid(cluster, "worker")
        waiting = {"waiting": {"reason": "PodInitializing"}}

        def change(document: Document) -> None:
            statuses = [{"name": "worker", "state": waiting}]
            ended = {"phase": "Failed", "message": WORDS, "containerStatuses": statuses}
            document["status"] |= ended | status

        cluster.server.edit(PODS, cluster.workloads.pod_key("worker"), change, subresource="status")
        await anyio.sleep(60)
        assert row(cluster, "worker")[0] == "Failed"
        assert WORDS in row(cluster, "worker")[3]
        assert pod_uid(cluster, "worker") == before


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "Evicted"])
async def test_a_worker_that_its_kubelet_stopped_has_failed_although_it_exits_with_0(
    cluster: SimulatedCluster, reason: str
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "worker")
        now = format_time(cluster.clock())
        ended = {"phase": "Failed", "reason": reason, "message": WORDS}
        set_containers(cluster, {"terminated": {"exitCode": 0, "finishedAt": now}}, **ended)
        await anyio.sleep(60)
        assert row(cluster, "worker")[0] == "Failed"
        assert WORDS in row(cluster, "worker")[3]


async def test_a_pod_evicted_before_any_container_ran_is_rejected(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.kubelet.hold(cluster.workloads.pod_key("worker"))
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "worker")
        before = pod_uid(cluster, "worker")
        cluster.kubelet.reject(cluster.workloads.pod_key("worker"), "Evicted")
        await anyio.sleep(30)
        assert pod_uid(cluster, "worker") != before
        assert row(cluster, "worker")[0] != "Failed"
