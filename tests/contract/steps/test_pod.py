"""Contract §5.10: the Pod is created after its assignment, and recreated for another assignment."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from informers.errors import ApiError, BadRequest, Forbidden, Invalid
from simulation.apiserver.kinds import PODS, WORKLOADS
from simulation.chaos.scripted import ArriveLate, Faults, LoseAnswer, LoseRequest, Meanwhile, Refuse
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    assert_sound,
    claim_of,
    delete_pod,
    holdings,
    is_waiting_for_a_kubelet,
    plain_pod,
    pod_uid,
    row,
    settings_with,
    submit,
    writes_of,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"


async def test_a_lost_pod_is_recreated_after_a_status_write_with_phase_placing(
    cluster: SimulatedCluster,
) -> None:
    """The write proves that the Workload is neither deleted nor terminal."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        before = cluster.workloads.status("worker")["assignmentID"]
        mark = len(cluster.audit)
        delete_pod(cluster, "worker")
        await cluster.settle()
        assert writes_of(cluster, mark)[:2] == ["patch workloads/status", "create pods"]
        phases = [c.record.document["status"].get("phase") for c in cluster.server.history(WORKLOADS)[-3:]]
        assert "Placing" in phases
        assert cluster.workloads.status("worker")["assignmentID"] == before, (
            "the seat is kept without its Pod"
        )
    assert_sound(cluster, "worker")


async def test_each_pod_recreation_writes_a_new_status_version(cluster: SimulatedCluster) -> None:
    """The phase is already Placing. A no-op write would not fence another process that clears the status."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        cluster.kubelet.hold(cluster.workloads.pod_key("worker"))
        cluster.workloads.submit(workload("worker"))
        await cluster.wait_until(lambda: is_waiting_for_a_kubelet(cluster, "worker"), "is not bound")
        for _ in range(2):
            before, uid = len(cluster.server.history(WORKLOADS)), pod_uid(cluster, "worker")
            delete_pod(cluster, "worker")
            await cluster.wait_until(partial(is_rebuilt, cluster, uid), "is not rebuilt")
            assert row(cluster, "worker")[0] == "Placing"
            assert len(cluster.server.history(WORKLOADS)) == before + 1


def is_rebuilt(cluster: SimulatedCluster, uid: str) -> bool:
    return is_waiting_for_a_kubelet(cluster, "worker") and pod_uid(cluster, "worker") != uid


async def test_a_pod_is_not_recreated_for_a_worker_deleted_meanwhile(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
        hit = faults.add(
            Meanwhile(lambda: cluster.workloads.delete("worker")),
            verb="patch",
            kind=WORKLOADS,
            subresource="status",
        )
        mark = len(cluster.audit)
        delete_pod(cluster, "worker")
        await cluster.settle()
        assert hit.hits == 1
        assert "create pods" not in writes_of(cluster, mark)
    assert cluster.workloads.is_empty()


async def test_an_existing_pod_of_ours_is_read_back(cluster: SimulatedCluster) -> None:
    """The answer to the create was lost, but the Pod exists: it is kept, with its assignment."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    faults.add(LoseAnswer(), verb="create", kind=PODS)
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
        creates = [e for e in cluster.calls() if (e.request.verb, e.request.kind) == ("create", PODS)]
        assert len(creates) == 1
    assert row(cluster, "worker") == ("Running", "True", "Placed", "")
    assert_sound(cluster, "worker")


async def test_a_lost_create_request_is_sent_again(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    faults.add(LoseRequest(), verb="create", kind=PODS)
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
    assert row(cluster, "worker") == ("Running", "True", "Placed", "")
    assert_sound(cluster, "worker")


async def test_a_late_create_makes_no_second_pod(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    faults = Faults()
    faults.add(ArriveLate(5.0), verb="create", kind=PODS)
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
    assert row(cluster, "worker") == ("Running", "True", "Placed", "")
    assert_sound(cluster, "worker")
    assert not invariants.violations


async def test_a_foreign_pod_created_first_is_a_conflict(cluster: SimulatedCluster) -> None:
    """The create fails with AlreadyExists, and the existing Pod is foreign."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    faults.add(
        Meanwhile(lambda: cluster.server.create(PODS, NAMESPACE, plain_pod("orw-worker"))),
        verb="create",
        kind=PODS,
    )
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
        await cluster.settle()
    assert row(cluster, "worker")[:3] == ("Failed", "False", "PodConflict")
    assert holdings(cluster) == ["Pod orw-worker"], "seat and claim are released"


IMAGE_MISSING = Invalid("spec.containers[0].image: Required value", fields=("spec.containers[0].image",))
UNDECODABLE = BadRequest('strict decoding error: unknown field "spec.containers[0].image"')


@pytest.mark.parametrize("error", [IMAGE_MISSING, UNDECODABLE], ids=["422", "400"])
async def test_an_invalid_template_fails_and_releases_everything(
    cluster: SimulatedCluster, error: ApiError
) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    faults.add(Refuse(lambda: error), verb="create", kind=PODS)
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
    text = f"InvalidTemplate: {error.message}"
    assert row(cluster, "worker") == ("Failed", "False", "InvalidTemplate", text)
    assert holdings(cluster) == []


async def test_unknown_fields_in_the_template_are_refused(cluster: SimulatedCluster) -> None:
    """`fieldValidation=Strict`: the CRD preserves an unknown field, but the Pod's schema refuses it."""
    cluster.fleet.add_nodes(1)
    worker = workload("worker")
    worker["spec"]["template"]["spec"]["hostNetwrok"] = True
    async with simulated_controller(cluster):
        cluster.workloads.submit(worker)
        await cluster.settle()
    assert row(cluster, "worker")[:3] == ("Failed", "False", "InvalidTemplate")
    assert "hostNetwrok" in row(cluster, "worker")[3]
    assert holdings(cluster) == []


async def test_a_rejected_pod_releases_everything_and_backs_off(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    faults = Faults()
    rule = faults.add(
        Refuse(lambda: Forbidden("exceeded quota: pods=10", status=403)), verb="create", kind=PODS, times=None
    )
    often = settings_with(retry_interval_seconds=10.0, placement_timeout_seconds=0.0)
    async with simulated_controller(cluster, often, interceptor=faults):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(5)
        text = "PodRejected: exceeded quota: pods=…"
        assert row(cluster, "worker") == ("Pending", "False", "PodRejected", text)
        assert claim_of(cluster, "worker") == ""
        assert holdings(cluster) == [], "seat and claim are released"
        await anyio.sleep(600)
        assert rule.hits <= 17, "1 + 2 + 4 + ... seconds up to one minute"
        assert rule.hits >= 5
        # Events do not shorten the back-off.
        hits = rule.hits
        cluster.fleet.add_node("another")
        await anyio.sleep(2)
        assert rule.hits == hits
        faults.clear()
        await anyio.sleep(310)
    assert row(cluster, "worker") == ("Running", "True", "Placed", "")
    assert violations_at_rest(cluster) == []
    assert not invariants.violations


async def test_a_pod_of_another_assignment_is_deleted_and_recreated(
    cluster: SimulatedCluster,
) -> None:
    """The ledger of the Pod's claim lacks its assignment, so the status wins after the Pod is gone."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "creator", "worker")
        right = cluster.workloads.pod("worker")
        assert right is not None
    cluster.server.delete(PODS, "orw-worker", NAMESPACE, grace_seconds=0)
    spec = right["spec"]
    for each in spec["containers"][0]["env"]:
        if each["name"] == "OPEN_RL_ASSIGNMENT_ID":
            each["value"] = "an-assignment-of-old"
    kept = {key: right["metadata"][key] for key in ("name", "labels", "ownerReferences")}
    wrong = cluster.server.create(PODS, NAMESPACE, {"metadata": kept, "spec": spec}).uid
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()
    assert pod_uid(cluster, "worker") not in {"", wrong}
    assert row(cluster, "worker")[0] == "Running"
    assert_sound(cluster, "worker")
    assert violations_at_rest(cluster) == []
    assert not invariants.violations
