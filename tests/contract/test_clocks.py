"""Clocks that are wrong, or are set: no wait ends early because of them, and none lasts for hours.

A controller's wall clock is what times of objects are compared with. Those are written by the API server, by
kube-scheduler and by earlier controllers, each with a clock of its own.
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
from simulation.cluster.simulated import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.clocks import BACK_AND_FORWARD, HALF_A_DAY_SECONDS, eight_seconds_with_a_jump
from tests.contract.harness import (
    FINALIZER,
    controller_reference,
    delete_pod,
    give_verdict,
    plain_pod,
    pod_uid,
    row,
    settings_with,
    submit,
)
from tests.contract.hours import HOURS

pytestmark = pytest.mark.anyio

MINUTE = settings_with(placement_timeout_seconds=60.0)


def off_by(cluster: SimulatedCluster, seconds: float) -> Callable[[], datetime]:
    """A wall clock that is so far ahead of the cluster's."""
    return lambda: cluster.clock() + timedelta(seconds=seconds)


@BACK_AND_FORWARD
async def test_a_worker_is_given_its_whole_time_by_a_controller_whose_clock_is_wrong(
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


async def test_a_slow_scheduler_is_waited_for_by_a_controller_whose_clock_is_ahead() -> None:
    async with SimulatedCluster(delays=replace(Delays(), scheduling_seconds=20.0)) as cluster:
        cluster.fleet.add_nodes(1)
        async with simulated_controller(cluster, MINUTE, now=off_by(cluster, HALF_A_DAY_SECONDS)):
            cluster.workloads.submit(workload("worker"))
            await cluster.wait_until(lambda: row(cluster, "worker")[0] == "Running", "it failed")


async def test_what_comes_after_the_start_of_a_controller_whose_clock_is_ahead_is_new(
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
        give_verdict(cluster, "worker", "SchedulerError")
        await anyio.sleep(8)
        assert row(cluster, "worker")[0] == "Placing"
        await anyio.sleep(3)
        assert row(cluster, "worker")[3].startswith("SchedulerError: ")


@BACK_AND_FORWARD
async def test_the_end_of_a_pod_is_spoken_of_after_ten_seconds(
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


async def test_the_end_of_two_pods_is_spoken_of_too(cluster: SimulatedCluster) -> None:
    """One comes before the worker's own in the order of names, and was asked to end at another time."""
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
async def test_a_pod_that_does_not_start_is_spoken_of_after_ten_seconds(
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
async def test_a_scheduler_error_is_spoken_of_after_ten_seconds(
    cluster: SimulatedCluster, jump_seconds: float
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS):
        cluster.scheduler.pause()
        cluster.workloads.submit(workload("worker"))
        await cluster.wait_until(lambda: cluster.workloads.pod("worker"), "no Pod")
        give_verdict(cluster, "worker", "SchedulerError")
        await eight_seconds_with_a_jump(cluster, jump_seconds)
        assert row(cluster, "worker")[0] == "Placing"
        await anyio.sleep(4)
        assert row(cluster, "worker")[3].startswith("SchedulerError: ")


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
async def test_nothing_is_remembered_of_a_worker_that_went_while_it_was_looked_at(
    cluster: SimulatedCluster, again: bool
) -> None:
    """Its finalizer is taken away by hand in the middle of its deletion, and its Pod stays."""
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


async def test_of_a_worker_that_has_ended_only_the_last_look_is_remembered(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "worker")
        cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))
        await cluster.settle()
        assert row(cluster, "worker")[0] == "Succeeded"
        assert repr(process.controller.local_state.ages) == "<Ages workers=1 waiting=0>"
