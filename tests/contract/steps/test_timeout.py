"""Contract §5.13: a worker that is not placed in time fails, and never starts later."""

from __future__ import annotations

import anyio
import pytest

from simulation.apiserver.kinds import CLAIMS, PODS
from simulation.chaos.scripted import Faults, Meanwhile
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.clocks import BACK_AND_FORWARD
from tests.contract.harness import (
    FINALIZER,
    claim_of,
    holdings,
    placed,
    pod_uid,
    row,
    settings_with,
    submit,
    writes_of,
)

pytestmark = pytest.mark.anyio

MINUTE = settings_with(placement_timeout_seconds=60.0)


async def test_the_timeout_order_is_pod_failed_seat_claim(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster, MINUTE):
        await submit(cluster, "holder", shared=False)
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(55)
        assert row(cluster, "worker")[0] == "Pending"
        mark = len(cluster.audit)
        await anyio.sleep(10)
        assert writes_of(cluster, mark) == [
            "delete pods",
            "patch workloads/status",
            "patch claimledgers",
            "delete claimledgers",
            "delete resourceclaims",
        ]
        phase, status, reason, text = row(cluster, "worker")
        assert (phase, status, reason) == ("Failed", "False", "Unschedulable")
        assert text.startswith("PlacementTimeout: waited 1m; last: WaitingForCapacity: ")
        # It never starts later.
        cluster.workloads.delete("holder")
        await anyio.sleep(120)
        assert row(cluster, "worker")[0] == "Failed"
    assert holdings(cluster) == []
    assert not invariants.violations


@BACK_AND_FORWARD
async def test_setting_the_wall_clock_does_not_change_the_timeout(
    cluster: SimulatedCluster, jump_seconds: float
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, MINUTE):
        await submit(cluster, "holder", shared=False)
        await submit(cluster, "worker")
        cluster.clock.jump(jump_seconds)
        await anyio.sleep(40)
        assert row(cluster, "worker")[0] == "Pending"
        await anyio.sleep(20)
        assert row(cluster, "worker")[0] == "Failed"


async def test_a_worker_that_can_never_fit_is_unsatisfiable(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, MINUTE):
        cluster.workloads.submit(workload("worker", memory="200Gi"))
        await anyio.sleep(65)
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Failed", "False", "Unsatisfiable")
    assert text.startswith("PlacementTimeout: waited 1m; last: NoCapacity: ")


async def test_a_conflict_on_the_pod_prevents_the_timeout(cluster: SimulatedCluster) -> None:
    """kube-scheduler bound the Pod just before the timeout, so it runs."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    async with simulated_controller(cluster, MINUTE, interceptor=faults):
        await submit(cluster, "holder", shared=False)
        cluster.workloads.submit(workload("worker", exclusive=True))
        await cluster.wait_until(lambda: placed(cluster, "worker")[1] == "Unschedulable", "not refused")
        first = pod_uid(cluster, "worker")
        cluster.scheduler.pause()

        def bind() -> None:
            conditions = [{"type": "PodScheduled", "status": "True"}]
            cluster.server.bind(cluster.workloads.pod_key("worker"), first, "gpu-node-0", conditions)

        hit = faults.add(Meanwhile(bind), verb="delete", kind=PODS)
        await anyio.sleep(90)
        assert hit.hits == 1
        assert pod_uid(cluster, "worker") == first
        assert row(cluster, "worker") == ("Running", "True", "Placed", "")


async def test_waiting_for_a_seat_counts_for_the_timeout(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, MINUTE.model_copy(update={"max_seats_per_claim": 1})):
        cluster.workloads.submit(workload("first"))
        await cluster.wait_until(lambda: row(cluster, "first")[0] == "Running", "does not run")
        cluster.workloads.submit(workload("second"))
        await anyio.sleep(65)
    assert row(cluster, "second")[0] == "Failed"
    assert "shared claims hold at most 1 worker" in row(cluster, "second")[3]


async def test_a_timeout_of_zero_is_disabled(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, settings_with(placement_timeout_seconds=0.0)):
        await submit(cluster, "holder", "worker", shared=False)
        await anyio.sleep(6 * 3600)
        assert row(cluster, "worker")[0] == "Pending"


async def test_the_timeout_of_an_unplaced_worker_counts_from_creation_across_restarts(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, MINUTE):
        await submit(cluster, "holder", shared=False)
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(40)
    async with simulated_controller(cluster, MINUTE, identity="successor"):
        await anyio.sleep(25)
    assert row(cluster, "worker")[0] == "Failed"


async def test_the_timeout_of_a_placed_worker_counts_from_its_loss(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, MINUTE):
        cluster.workloads.submit(workload("worker", exclusive=True))
        await anyio.sleep(600)
        assert row(cluster, "worker")[0] == "Running"
        cluster.fleet.cordon("gpu-node-0")
        cluster.server.delete(PODS, "orw-worker", "openrl-system")
        await anyio.sleep(50)
        assert row(cluster, "worker")[0] == "Pending"
        await anyio.sleep(20)
        assert row(cluster, "worker")[0] == "Failed"
    assert holdings(cluster) == []


async def test_waiting_for_a_predecessor_claim_does_not_count(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.workloads.submit(workload("worker", exclusive=True))
    worker = cluster.workloads.get("worker")
    assert worker is not None
    name = f"claim-worker-{worker['metadata']['uid'][:8]}"
    body = {
        "metadata": {
            "name": name,
            "labels": {"openrl.io/managed": "true"},
            "finalizers": ["example.com/hold"],
        },
        "spec": {
            "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
        },
    }
    cluster.server.create(CLAIMS, "openrl-system", body)
    cluster.server.delete(CLAIMS, name, "openrl-system")
    often = MINUTE.model_copy(update={"retry_interval_seconds": 10.0})
    async with simulated_controller(cluster, often):
        await anyio.sleep(600)
        assert row(cluster, "worker")[2] == "WaitingForPredecessorClaim"
        cluster.server.patch(CLAIMS, name, "openrl-system", {"metadata": {"finalizers": None}})
        await cluster.settle()
        assert row(cluster, "worker")[0] == "Running"
    assert claim_of(cluster, "worker") == name
    assert violations_at_rest(cluster) == []


async def test_a_timeout_keeps_the_finalizer_until_the_workload_is_deleted(
    cluster: SimulatedCluster,
) -> None:
    async with simulated_controller(cluster, MINUTE):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(70)
        worker = cluster.workloads.get("worker")
        assert worker is not None
        assert worker["metadata"]["finalizers"] == [FINALIZER]
        cluster.workloads.delete("worker")
        await cluster.settle()
    assert cluster.workloads.is_empty()
