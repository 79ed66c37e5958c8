"""Additions by admission to a worker's Pod have no effect. Removals are reported, with back-off."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from controller.config.flags import Settings
from simulation.apiserver.documents import Document
from simulation.apiserver.interception import Apply, Interceptor, Request
from simulation.apiserver.kinds import CLAIMS, PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import claim_of, count_calls, round_trip_seconds, row

pytestmark = pytest.mark.anyio

SETTINGS = Settings(leader_elect=False)
Change = Callable[[Document], object]


def webhook(change: Change) -> Interceptor:
    """Return a mutating webhook for created Pods."""

    async def intercept(request: Request, apply: Apply) -> bytes:
        if request.kind is PODS and request.verb == "create":
            change(request.body)
        return apply()

    return intercept


def worker_container(pod: Document) -> Document:
    """Return the worker's container."""
    found: Document = next(c for c in pod["spec"]["containers"] if c["name"] == "worker")
    return found


def own_entry(pod: Document) -> Document:
    """Return our entry of `spec.resourceClaims`."""
    found: Document = next(e for e in pod["spec"]["resourceClaims"] if e["name"] == "gpu")
    return found


def claim_in_front(pod: Document) -> None:
    pod["spec"]["resourceClaims"].insert(0, {"name": "nic", "resourceClaimName": "nic"})


def container_in_front(pod: Document) -> None:
    variables = [{"name": "OPEN_RL_ASSIGNMENT_ID", "value": "another"}]
    pod["spec"]["containers"].insert(0, {"name": "proxy", "image": "proxy:1", "env": variables})


def labels_and_annotations(pod: Document) -> None:
    pod["metadata"]["labels"] = {"team": "a"}
    pod["metadata"]["annotations"] = {"mesh.example.com/status": "injected"}


def one_more_owner(pod: Document) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "pool", "uid": "pool-uid"}
    pod["metadata"]["ownerReferences"].insert(0, owner)


def variable_twice(pod: Document) -> None:
    variables = worker_container(pod)["env"]
    variables.insert(0, {"name": "OPEN_RL_ASSIGNMENT_ID", "value": "overridden"})


@pytest.mark.parametrize(
    "change", [claim_in_front, container_in_front, labels_and_annotations, one_more_owner, variable_twice]
)
async def test_a_pod_to_which_admission_adds_is_made_once(cluster: SimulatedCluster, change: Change) -> None:
    cluster.fleet.add_nodes(1)
    cluster.server.create(CLAIMS, "openrl-system", {"metadata": {"name": "nic"}, "spec": {}})
    async with simulated_controller(
        cluster, SETTINGS, interceptor=webhook(change), latency_seconds=round_trip_seconds
    ):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        assert row(cluster, "worker")[0] == "Running"
        assert count_calls(cluster, "create", PODS, client="controller") == 1
        assert count_calls(cluster, "delete", PODS, client="controller") == 0
        cluster.workloads.delete("worker")
        await anyio.sleep(60)
        assert cluster.workloads.get("worker") is None
        assert not cluster.workloads.ledgers()


def remove_entry(pod: Document) -> None:
    pod["spec"]["resourceClaims"] = []
    worker_container(pod)["resources"].pop("claims")


def rename_entry(pod: Document) -> None:
    own_entry(pod)["name"] = "device"
    worker_container(pod)["resources"]["claims"] = [{"name": "device"}]


def other_claim(pod: Document) -> None:
    own_entry(pod)["resourceClaimName"] = "another"


def other_assignment(pod: Document) -> None:
    for variable in worker_container(pod)["env"]:
        variable["value"] = "changed"


def other_container_name(pod: Document) -> None:
    worker_container(pod)["name"] = "main"


def other_owner(pod: Document) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "set-uid"}
    pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (remove_entry, "the entry gpu of spec.resourceClaims"),
        (rename_entry, "the entry gpu of spec.resourceClaims"),
        (other_claim, "the entry gpu of spec.resourceClaims"),
        (other_assignment, "the variable OPEN_RL_ASSIGNMENT_ID of container worker"),
        (other_container_name, "the variable OPEN_RL_ASSIGNMENT_ID of container worker"),
        (other_owner, "the owner of the Pod"),
    ],
)
async def test_a_pod_that_admission_takes_ours_from_is_reported_and_not_made_again_at_once(
    cluster: SimulatedCluster, change: Change, words: str
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(
        cluster, SETTINGS, interceptor=webhook(change), latency_seconds=round_trip_seconds
    ):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        phase, _, reason, text = row(cluster, "worker")
        assert (phase, reason) == ("Pending", "PodRejected")
        assert text == f"PodRejected: admission changes {words}"
        assert cluster.workloads.pod("worker") is None
        assert not claim_of(cluster, "worker")
        assert count_calls(cluster, "create", PODS, client="controller") < 10
