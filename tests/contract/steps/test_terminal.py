"""Contract §5.2 and contract §5.12: an ended worker never starts again, and a lost Pod is not an end."""

from __future__ import annotations

import anyio
import pytest

from informers.api import ObjectKey
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import PODS, WORKLOADS
from simulation.chaos.scripted import Crash, Faults
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import (
    LIMIT_OF_TWO,
    assert_sound,
    claim_of,
    controller_reference,
    delete_pod,
    edit_status,
    holdings,
    plain_pod,
    pod_uid,
    row,
    submit,
    writes_of,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_terminal_workload_is_never_placed_again(cluster: SimulatedCluster, phase: str) -> None:
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


async def test_the_terminal_status_is_written_before_the_release(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        before = cluster.workloads.status("worker")
        mark = len(cluster.audit)
        cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))
        await cluster.settle()
        assert writes_of(cluster, mark) == [
            "patch workloads/status",
            "patch claimledgers",
            "delete claimledgers",
            "delete resourceclaims",
        ]
    after = cluster.workloads.status("worker")
    where = ("claimName", "assignmentID", "podName", "nodeName", "deviceCount")
    assert {name: after[name] for name in where} == {name: before[name] for name in where}
    assert row(cluster, "worker") == ("Succeeded", "True", "Placed", "")
    assert cluster.workloads.pod("worker") is not None, "the finished Pod stays as a record"


async def test_the_claim_is_kept_while_other_workers_have_seats(cluster: SimulatedCluster) -> None:
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
    """The process crashes after writing Failed: a running Pod, seat, ledger and claim are left."""
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


async def test_a_late_pod_of_an_ended_worker_is_deleted(cluster: SimulatedCluster) -> None:
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


async def test_a_deleted_pod_is_lost_and_the_worker_is_placed_again(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        first = pod_uid(cluster, "worker")
        # The kubelet sets phase Failed some time before it removes the Pod: that is not a result.
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
async def test_a_pod_removed_by_its_node_is_lost(cluster: SimulatedCluster, how: str) -> None:
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
    """Fail a Pod as a node drain does: its process ends with an ordinary exit code."""
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


async def test_an_end_that_only_the_cache_shows_is_ignored(cluster: SimulatedCluster) -> None:
    """The ended Pod is replaced before its event arrives: the live Pod has another UID."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submit(cluster, "worker")
        old = cluster.workloads.pod("worker")
        assert old is not None
        cluster.watches.lag_seconds = lambda client, kind: 2.0 if kind is PODS and client else 0.0
        cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))
        cluster.server.delete(PODS, "orw-worker", "openrl-system", grace_seconds=0)
        # When the event arrives, another Pod with the same assignment has the name.
        live = {
            "metadata": {k: old["metadata"][k] for k in ("name", "labels", "ownerReferences")},
            "spec": {**old["spec"]},
        }
        cluster.server.create(PODS, "openrl-system", live)
        await cluster.settle()
        assert row(cluster, "worker") == ("Running", "True", "Placed", "")
        assert_sound(cluster, "worker")
