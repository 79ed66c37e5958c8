"""The checks of attempts detect small devices, lasting refusals, and too many Pods or probes."""

from __future__ import annotations

import anyio
import pytest

from simulation.actors.base import condition
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import PODS
from simulation.checks.attempts import (
    PODS_PER_HOUR_MAX,
    PROBES_PER_SECOND_MAX,
    AttemptChecker,
    attempt_violations,
)
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import WORKER_NAMESPACE, SimulatedCluster
from simulation.cluster.workloads import workload

pytestmark = pytest.mark.anyio


def found(cluster: SimulatedCluster) -> list[str]:
    return list(attempt_violations(cluster.server, WORKER_NAMESPACE))


async def run_worker(cluster: SimulatedCluster, memory: str) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker", memory=memory))
        await cluster.settle()


async def test_a_worker_on_a_device_that_is_too_small_is_reported(cluster: SimulatedCluster) -> None:
    """Contract §8.11."""
    await run_worker(cluster, "60Gi")
    assert found(cluster) == []

    cluster.fleet.set_devices("gpu-node-0", ["24Gi"])
    assert found(cluster) == ["worker runs on gpu-node-0/gpu-0, which is too small for it"]


async def test_a_pod_that_stays_where_it_is_refused_is_reported(cluster: SimulatedCluster) -> None:
    """Contract §8.12."""
    await run_worker(cluster, "60Gi")

    def refuse(document: Document) -> None:
        document["status"]["conditions"] = condition(
            document["status"], "PodScheduled", "False", timestamp="", reason="Unschedulable"
        )

    cluster.server.edit(PODS, cluster.workloads.pod_key("worker"), refuse, subresource="status")
    (violation,) = found(cluster)
    assert violation.startswith("worker stays on claim-")


async def test_a_process_that_creates_a_pod_again_and_again_is_reported_once(
    cluster: SimulatedCluster,
) -> None:
    """Contract §8.13."""
    await run_worker(cluster, "60Gi")
    body = cluster.workloads.pod("worker")
    assert body is not None
    body["metadata"] = {key: body["metadata"][key] for key in ("name", "ownerReferences")}
    seconds = iter(range(10_000))
    checker = AttemptChecker(cluster.server, lambda: next(seconds), lambda: "controller")
    for _ in range(PODS_PER_HOUR_MAX + 5):
        cluster.server.delete(PODS, "orw-worker", WORKER_NAMESPACE, grace_seconds=0)
        cluster.server.create(PODS, WORKER_NAMESPACE, body)

    assert checker.violations == ["controller created orw-worker more than 40 times in an hour"]


@pytest.mark.parametrize(("pause_seconds", "reported"), [(0.0, True), (0.2, False)])
async def test_a_process_that_sends_too_many_probes_is_reported(
    cluster: SimulatedCluster, pause_seconds: float, reported: bool
) -> None:
    """Contract §8.14."""
    checker = AttemptChecker(cluster.server, anyio.current_time, lambda: "")
    for _ in range(PROBES_PER_SECOND_MAX + 1):
        checker.on_probe("controller")
        await anyio.sleep(pause_seconds)

    assert bool(checker.violations) is reported
