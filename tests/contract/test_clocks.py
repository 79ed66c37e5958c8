"""Wrong or adjusted clocks: no wait ends early because of them, and none lasts for hours.

The controller compares timestamps of objects with its own wall clock. The API server, kube-scheduler and
earlier controllers write them, each with its own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import anyio
import pytest

from informers.api import ObjectKey
from simulation.actors.base import Delays
from simulation.apiserver.interception import Request
from simulation.apiserver.kinds import PODS, WORKLOADS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.clocks import BACK_AND_FORWARD, HALF_A_DAY_SECONDS, eight_seconds_with_a_jump
from tests.contract.harness import (
    FINALIZER,
    controller_reference,
    delete_pod,
    plain_pod,
    pod_uid,
    row,
    set_unschedulable,
    settings_with,
    submit,
)
from tests.contract.hours import HOURS

pytestmark = pytest.mark.anyio

MINUTE = settings_with(placement_timeout_seconds=60.0)


def off_by(cluster: SimulatedCluster, seconds: float) -> Callable[[], datetime]:
    """Return a wall clock that differs from the cluster's by these seconds."""
    return lambda: cluster.clock() + timedelta(seconds=seconds)


@BACK_AND_FORWARD
async def test_a_wrong_controller_clock_does_not_shorten_the_placement_timeout(
    cluster: SimulatedCluster, jump_seconds: float
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, MINUTE, now=off_by(cluster, jump_seconds)):
        await submit(cluster, "holder", shared=False)
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(50)
        assert row(cluster, "worker")[0] == "Pending"
        await anyio.sleep(25)
        assert row(cluster, "worker")[0] == "Failed"


async def test_a_controller_with_a_fast_clock_waits_for_a_slow_scheduler() -> None:
    async with SimulatedCluster(delays=replace(Delays(), scheduling_seconds=20.0)) as cluster:
        cluster.fleet.add_nodes(1)
        async with simulated_controller(cluster, MINUTE, now=off_by(cluster, HALF_A_DAY_SECONDS)):
            cluster.workloads.submit(workload("worker"))
            await cluster.wait_until(lambda: row(cluster, "worker")[0] == "Running", "it failed")


async def test_to_a_controller_with_a_fast_clock_later_events_are_new(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS, identity="before"):
        await submit(cluster, "worker")
    async with simulated_controller(cluster, HOURS, now=off_by(cluster, HALF_A_DAY_SECONDS)):
        await cluster.settle()
        cluster.scheduler.pause()
        first = pod_uid(cluster, "worker")
        delete_pod(cluster, "worker")
        await cluster.wait_until(lambda: pod_uid(cluster, "worker") not in {"", first}, "no other Pod")
        set_unschedulable(cluster, "worker", "SchedulerError")
        await anyio.sleep(8)
        assert row(cluster, "worker")[0] == "Placing"
        await anyio.sleep(3)
        assert row(cluster, "worker")[3].startswith("SchedulerError: ")


@BACK_AND_FORWARD
async def test_a_terminating_pod_is_reported_after_ten_seconds(
    cluster: SimulatedCluster, jump_seconds: float
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS):
        await submit(cluster, "worker")
        cluster.kubelet.pause()
        cluster.workloads.delete("worker")
        await eight_seconds_with_a_jump(cluster, jump_seconds)
        assert row(cluster, "worker")[3] == ""
        await anyio.sleep(4)
        assert row(cluster, "worker")[3].startswith("WaitingForPodGone: ")


async def test_two_terminating_pods_are_reported_too(cluster: SimulatedCluster) -> None:
    """The name of one sorts before that of the worker's own Pod, and it was deleted at another time."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS):
        await submit(cluster, "worker")
        worker = cluster.workloads.get("worker")
        assert worker is not None
        owner = controller_reference("worker", worker["metadata"]["uid"])
        other = plain_pod("another", node="gpu-node-0", owner=owner)
        cluster.server.create(PODS, cluster.workloads.namespace, other)
        await cluster.settle()
        cluster.kubelet.pause()
        cluster.server.delete(PODS, "another", cluster.workloads.namespace)
        await anyio.sleep(3)
        cluster.workloads.delete("worker")
        await anyio.sleep(12)
        assert row(cluster, "worker")[3].startswith("WaitingForPodGone: ")


@BACK_AND_FORWARD
async def test_a_pod_that_does_not_start_is_reported_after_ten_seconds(
    cluster: SimulatedCluster, jump_seconds: float
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS):
        cluster.kubelet.hold(cluster.workloads.pod_key("worker"))
        cluster.workloads.submit(workload("worker"))
        await eight_seconds_with_a_jump(cluster, jump_seconds)
        assert row(cluster, "worker")[3].startswith("CreatedClaim: ")
        await anyio.sleep(4)
        assert row(cluster, "worker")[3].startswith("ContainerWaiting: ")


@BACK_AND_FORWARD
async def test_a_scheduler_error_is_reported_after_ten_seconds(
    cluster: SimulatedCluster, jump_seconds: float
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS):
        cluster.scheduler.pause()
        cluster.workloads.submit(workload("worker"))
        await cluster.wait_until(lambda: cluster.workloads.pod("worker"), "no Pod")
        set_unschedulable(cluster, "worker", "SchedulerError")
        await eight_seconds_with_a_jump(cluster, jump_seconds)
        assert row(cluster, "worker")[0] == "Placing"
        await anyio.sleep(4)
        assert row(cluster, "worker")[3].startswith("SchedulerError: ")


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
async def test_local_state_is_dropped_for_a_workload_deleted_during_its_reconcile(
    cluster: SimulatedCluster, again: bool
) -> None:
    """Its finalizer is removed manually during its deletion, and its Pod stays."""
    cluster.fleet.add_nodes(1)
    key = ObjectKey(cluster.workloads.namespace, "worker")

    def slow_deletions(request: Request) -> float:
        return 5.0 if (request.verb, request.kind) == ("delete", PODS) else 0.0

    async with simulated_controller(cluster, HOURS, latency_seconds=slow_deletions) as process:
        await submit(cluster, "worker")
        cluster.kubelet.pause()
        cluster.workloads.delete("worker")
        await anyio.sleep(1)
        cluster.server.edit(WORKLOADS, key, lambda body: body["metadata"]["finalizers"].remove(FINALIZER))
        if again:
            cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        assert cluster.workloads.pod("worker") is not None
        assert repr(process.controller.local_state.ages) == f"<Ages workers={again:d} waiting={again:d}>"


async def test_only_the_last_observation_of_an_ended_worker_is_kept(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "worker")
        cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))
        await cluster.settle()
        assert row(cluster, "worker")[0] == "Succeeded"
        assert repr(process.controller.local_state.ages) == "<Ages workers=1 waiting=0>"
