"""Contract §5.2, contract §5.12: who has ended never starts again; a lost Pod is no end."""

from __future__ import annotations

import anyio
import pytest

from informers.api import ObjectKey
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import PODS, WORKLOADS
from simulation.chaos.scripted import Crash, Faults
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated import SimulatedCluster
from tests.contract.harness import (
    LIMIT_OF_TWO,
    assert_sound,
    claim_of,
    controller_reference,
    deeds,
    delete_pod,
    edit_status,
    holdings,
    plain_pod,
    pod_uid,
    row,
    submit,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_it_is_never_placed_again_whatever_wakes_it(cluster: SimulatedCluster, phase: str) -> None:
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        key = cluster.workloads.pod_key("worker")
        if phase == "Succeeded":
            cluster.kubelet.succeed(key)
        else:
            cluster.kubelet.fail(key)
        await cluster.settle()
        assert row(cluster, "worker")[0] == phase
        delete_pod(cluster, "worker")
        cluster.fleet.add_node("another")
        await cluster.settle()
        assert cluster.workloads.pod("worker") is None
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
    assert row(cluster, "worker")[0] == phase
    assert holdings(cluster) == []
    assert not invariants.violations


async def test_the_terminal_status_comes_before_the_seat_goes(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        before = cluster.workloads.status("worker")
        mark = len(cluster.audit)
        cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))
        await cluster.settle()
        assert deeds(cluster, mark) == [
            "patch workloads/status",
            "patch claimledgers",
            "delete claimledgers",
            "delete resourceclaims",
        ]
    after = cluster.workloads.status("worker")
    where = ("claimName", "assignmentID", "podName", "nodeName", "deviceCount")
    assert {name: after[name] for name in where} == {name: before[name] for name in where}
    assert row(cluster, "worker") == ("Succeeded", "True", "Placed", "")
    assert cluster.workloads.pod("worker") is not None, "the Pod stays as the record of what happened"


async def test_a_seat_is_released_and_the_claim_kept_where_others_sit(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "first", "second")
        claim = claim_of(cluster, "first")
        cluster.kubelet.fail(cluster.workloads.pod_key("first"), "out of memory")
        await cluster.settle()
    assert cluster.workloads.seats() == {claim: ["second"]}
    assert row(cluster, "first")[0] == "Failed"
    assert row(cluster, "first")[3].startswith("PodFailed: ")
    assert "out of memory" in row(cluster, "first")[3]
    assert_sound(cluster, "second")


async def test_an_interrupted_withdrawal_is_finished(cluster: SimulatedCluster) -> None:
    """Failed is written, and the process dies: a Pod that has not ended, seat, ledger and claim are left."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    edit_status(cluster, "worker", phase="Failed", reason="PlacementTimeout: waited 15m; last: none")
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
    assert row(cluster, "worker")[0] == "Failed"
    assert holdings(cluster) == []
    assert not invariants.violations


async def test_a_withdrawal_interrupted_twice_is_finished_too(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    edit_status(cluster, "worker", phase="Failed")
    for applied in (False, True):
        faults = Faults()
        async with simulated_controller(cluster, identity=f"victim-{applied}", interceptor=faults) as victim:
            faults.add(Crash(victim.client, applied=applied), verb="delete")
            await anyio.sleep(10)
    async with simulated_controller(cluster, identity="successor"):
        await anyio.sleep(130)
        await cluster.settle()
    assert holdings(cluster) == []


async def test_a_pod_that_arrives_late_for_an_ended_worker_is_deleted(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))
        await cluster.settle()
        delete_pod(cluster, "worker")
        await cluster.settle()
        workload = cluster.workloads.get("worker")
        assert workload is not None
        owner = controller_reference("worker", workload["metadata"]["uid"])
        cluster.server.create(PODS, "openrl-system", plain_pod("orw-worker", owner=owner))
        await cluster.settle()
    assert cluster.workloads.pods() == []


# Ended or lost?


def at_the_pod(cluster: SimulatedCluster, name: str) -> ObjectKey:
    return cluster.workloads.pod_key(name)


async def test_a_deleted_pod_is_lost_and_the_worker_placed_again(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        first = pod_uid(cluster, "worker")
        # The kubelet moves it to Failed some time before it goes: that is no outcome.
        cluster.kubelet.pause()
        delete_pod(cluster, "worker")
        cluster.kubelet.fail(at_the_pod(cluster, "worker"))
        await cluster.settle()
        assert row(cluster, "worker")[0] == "Running"
        cluster.kubelet.resume()
        await cluster.settle()
        assert row(cluster, "worker") == ("Running", "True", "Placed", "")
        assert pod_uid(cluster, "worker") != first
        assert_sound(cluster, "worker")
    phases = [
        (change.record.document.get("status") or {}).get("phase")
        for change in cluster.server.history(WORKLOADS)
    ]
    assert "Failed" not in phases
    assert not invariants.violations


@pytest.mark.parametrize("how", ["disrupted", "rejected"])
async def test_a_pod_that_the_node_took_away_is_lost(cluster: SimulatedCluster, how: str) -> None:
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        if how == "rejected":
            cluster.kubelet.hold(at_the_pod(cluster, "worker"))
            await submit(cluster, "worker")
            clear_containers(cluster, "worker")
            first = pod_uid(cluster, "worker")
            cluster.kubelet.reject(at_the_pod(cluster, "worker"))
            cluster.kubelet.release(at_the_pod(cluster, "worker"))
        else:
            await submit(cluster, "worker")
            first = pod_uid(cluster, "worker")
            fail_by_disruption(cluster, "worker")
        await cluster.settle()
        assert row(cluster, "worker") == ("Running", "True", "Placed", "")
        assert pod_uid(cluster, "worker") != first
    assert violations_at_rest(cluster) == []
    assert not invariants.violations


def fail_by_disruption(cluster: SimulatedCluster, name: str) -> None:
    """The node was drained: the process was ended, with an exit code like any other."""
    ended = {"terminated": {"exitCode": 137, "reason": "Error"}}

    def change(document: Document) -> None:
        status = document["status"]
        status["phase"] = "Failed"
        status["conditions"] = [
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        ]
        status["containerStatuses"] = [{"name": "worker", "state": ended}]

    cluster.server.edit(PODS, cluster.workloads.pod_key(name), change, subresource="status")


def clear_containers(cluster: SimulatedCluster, name: str) -> None:
    def change(document: Document) -> None:
        document["status"].pop("containerStatuses", None)

    cluster.server.edit(PODS, cluster.workloads.pod_key(name), change, subresource="status")


async def test_an_end_that_only_the_cache_shows_is_not_believed(cluster: SimulatedCluster) -> None:
    """The Pod that ended is replaced while the news is on its way: another UID, so nothing has ended."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submit(cluster, "worker")
        old = cluster.workloads.pod("worker")
        assert old is not None
        cluster.watches.lag_seconds = lambda client, kind: 2.0 if kind is PODS and client else 0.0
        cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))
        cluster.server.delete(PODS, "orw-worker", "openrl-system", grace_seconds=0)
        # A Pod of another making, with the same stamp, stands there when the end is heard of.
        live = {
            "metadata": {k: old["metadata"][k] for k in ("name", "labels", "ownerReferences")},
            "spec": {**old["spec"]},
        }
        cluster.server.create(PODS, "openrl-system", live)
        await cluster.settle()
        assert row(cluster, "worker") == ("Running", "True", "Placed", "")
        assert_sound(cluster, "worker")
