"""Contract §5.3 to §5.5: finalizer first, validation of unplaced workers, and the owner of the Pod."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from informers.errors import Forbidden
from simulation.apiserver.kinds import PODS, WORKLOADS
from simulation.chaos.scripted import Faults, Meanwhile, Refuse
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    FINALIZER,
    assert_sound,
    controller_reference,
    holdings,
    plain_pod,
    pod_uid,
    row,
    seat_of,
    submit,
    writes_of,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"


async def test_the_finalizer_is_the_first_write_and_the_pod_the_last(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        mark = len(cluster.audit)
        await submit(cluster, "worker")
        assert writes_of(cluster, mark)[:5] == [
            "patch workloads",
            "create claimledgers",
            "create resourceclaims",
            "patch workloads/status",
            "create pods",
        ]
        worker = cluster.workloads.get("worker")
        assert worker is not None
        assert worker["metadata"]["finalizers"] == [FINALIZER]


async def test_nothing_is_booked_while_the_finalizer_is_refused(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    faults.add(
        Refuse(lambda: Forbidden("no", status=403)), verb="patch", kind=WORKLOADS, subresource="", times=3
    )
    async with simulated_controller(cluster, interceptor=faults):
        cluster.workloads.submit(workload("worker"))
        await cluster.wait_until(lambda: bool(cluster.workloads.in_phase("Running")), "no worker runs")
        written = writes_of(cluster)
        assert written.index("patch workloads") < written.index("create claimledgers")


async def test_others_finalizers_are_kept(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    worker = workload("worker")
    worker["metadata"]["finalizers"] = ["example.com/other"]
    async with simulated_controller(cluster):
        cluster.workloads.submit(worker)
        await cluster.settle()
        cluster.workloads.delete("worker")
        await cluster.settle()
    left = cluster.workloads.get("worker")
    assert left is not None
    assert left["metadata"]["finalizers"] == ["example.com/other"]
    assert holdings(cluster) == []


# Validation.

INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "memory of zero": ({"memory": "0"}, "InvalidSpec"),
    "a TPU": ({"accelerator": {"memory": "20Gi", "type": "TPU"}}, "InvalidSpec"),
    "no worker container": ({"workerContainerName": "absent"}, "InvalidTemplate"),
}


@pytest.mark.parametrize("case", list(INVALID))
async def test_an_invalid_workload_fails_at_once_and_holds_nothing(
    cluster: SimulatedCluster, case: str
) -> None:
    cluster.fleet.add_nodes(1)
    spec, code = INVALID[case]
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker", **spec))
        await cluster.settle()
    phase, status, reason, text = row(cluster, "worker")
    assert (phase, status, reason) == ("Failed", "False", code)
    assert text.startswith(f"{code}: ")
    assert holdings(cluster) == []


async def test_memory_without_a_unit_that_an_earlier_schema_admitted_fails(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.workloads.submit(workload("worker"))
    make_memory_invalid(cluster, "worker")
    async with simulated_controller(cluster):
        await cluster.settle()
    sentence = "InvalidSpec: accelerator.memory: 60: below 1Mi; write a unit, e.g. 60Gi"
    assert row(cluster, "worker") == ("Failed", "False", "InvalidSpec", sentence)
    assert holdings(cluster) == []


@pytest.mark.parametrize("rule", ["template", "memory"])
async def test_a_placed_worker_is_never_failed_by_a_stricter_rule(
    cluster: SimulatedCluster, rule: str
) -> None:
    """An earlier controller accepted a spec that this one refuses; its worker keeps running."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    {"template": make_template_invalid, "memory": make_memory_invalid}[rule](cluster, "worker")
    first = pod_uid(cluster, "worker")
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
        cluster.fleet.add_node("another")
        await cluster.settle()
    assert row(cluster, "worker") == ("Running", "True", "Placed", "")
    assert pod_uid(cluster, "worker") == first
    assert_sound(cluster, "worker")


def make_memory_invalid(cluster: SimulatedCluster, name: str) -> None:
    """Write an amount of memory that only an earlier schema allowed."""
    document = cluster.server.get(WORKLOADS, name, NAMESPACE).copy()
    document["spec"]["accelerator"]["memory"] = 60
    cluster.server.store.put(WORKLOADS, document)


def make_template_invalid(cluster: SimulatedCluster, name: str) -> None:
    """Write a template that only an earlier schema allowed."""
    record = cluster.server.get(WORKLOADS, name, NAMESPACE)
    document = record.copy()
    document["spec"]["template"]["spec"]["serviceAccountName"] = "open-rl-scheduler"
    cluster.server.store.put(WORKLOADS, document)


# Whose Pod it is.


@pytest.mark.parametrize("owner", ["no owner", "a Job", "another Workload", "a plain reference"])
async def test_a_foreign_pod_with_our_name_is_a_conflict_and_stays(
    cluster: SimulatedCluster, owner: str
) -> None:
    cluster.fleet.add_nodes(1)
    references = {
        "no owner": None,
        "a Job": {**controller_reference("worker", "uid"), "apiVersion": "batch/v1", "kind": "Job"},
        "another Workload": controller_reference("another", "uid"),
        "a plain reference": {**controller_reference("worker", "uid"), "controller": False},
    }
    cluster.garbage_collector.pause()
    cluster.server.create(PODS, NAMESPACE, plain_pod("orw-worker", owner=references[owner]))
    await cluster.settle()
    before = cluster.workloads.pod("worker")
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker"))
        await cluster.settle()
        assert not [d for d in writes_of(cluster) if d.endswith("pods")]
    assert row(cluster, "worker")[:3] == ("Failed", "False", "PodConflict")
    assert row(cluster, "worker")[3].startswith("PodConflict: ")
    assert cluster.workloads.pod("worker") == before
    assert holdings(cluster) == ["Pod orw-worker"]


async def test_a_foreign_pod_that_only_the_cache_shows_fails_nobody(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.server.create(PODS, NAMESPACE, plain_pod("orw-worker"))
    async with simulated_controller(cluster):
        cluster.watches.lag_seconds = lambda _client, kind: 1.0 if kind is PODS else 0.0
        cluster.server.delete(PODS, "orw-worker", NAMESPACE, grace_seconds=0)
        cluster.workloads.submit(workload("worker"))
        await cluster.settle()
    assert row(cluster, "worker") == ("Running", "True", "Placed", "")


async def test_a_predecessors_pod_is_deleted_by_uid_and_awaited(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.garbage_collector.pause()
    owner = controller_reference("worker", "the-uid-before")
    cluster.server.create(PODS, NAMESPACE, plain_pod("orw-worker", owner=owner))
    await cluster.settle()
    first = pod_uid(cluster, "worker")
    cluster.kubelet.pause()
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        assert pod_uid(cluster, "worker") == first
        assert seat_of(cluster, "worker") is None, "nothing is booked while the Pod terminates"
        phase, status, reason, text = row(cluster, "worker")
        assert (phase, status, reason) == ("Pending", "False", "WaitingForPredecessorPod")
        assert text == "WaitingForPredecessorPod: orw-worker is still ending on gpu-node-0"
        cluster.kubelet.resume()
        await cluster.wait_until(lambda: bool(cluster.workloads.in_phase("Running")), "no worker runs")
        assert pod_uid(cluster, "worker") != first
    assert_sound(cluster, "worker")


async def test_a_predecessors_pod_is_deleted_by_its_uid(cluster: SimulatedCluster) -> None:
    """A Pod that replaces it between read and delete is not deleted."""
    cluster.fleet.add_nodes(1)
    cluster.garbage_collector.pause()
    owner = controller_reference("worker", "the-uid-before")
    cluster.server.create(PODS, NAMESPACE, plain_pod("orw-worker", owner=owner, node="gpu-node-0"))
    foreign: list[str] = []

    def replace() -> None:
        cluster.server.delete(PODS, "orw-worker", NAMESPACE, grace_seconds=0)
        foreign.append(cluster.server.create(PODS, NAMESPACE, plain_pod("orw-worker")).uid)

    faults = Faults()
    faults.add(Meanwhile(replace), verb="delete", kind=PODS)
    async with simulated_controller(cluster, interceptor=faults):
        cluster.workloads.submit(workload("worker"))
        await cluster.settle()
    assert pod_uid(cluster, "worker") == foreign[0]
    assert row(cluster, "worker")[:3] == ("Failed", "False", "PodConflict")
