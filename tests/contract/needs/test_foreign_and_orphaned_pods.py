"""Which Pods belong to a worker: none outside the workers' namespace, but also one that lost its owner."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    LIMIT_OF_TWO,
    claim_of,
    controller_reference,
    count_calls,
    plain_pod,
    pod_uid,
    row,
    seat_of,
    settings_with,
    submit,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
SETTINGS = settings_with(placement_timeout_seconds=0.0)
SHARING = LIMIT_OF_TWO.model_copy(update={"placement_timeout_seconds": 0.0})
Reference = Callable[[Document, str, str], object]


def by_owner(pod: Document, uid: str, _claim: str) -> None:
    pod["metadata"]["ownerReferences"] = [controller_reference("worker", uid)]


def by_name(pod: Document, uid: str, _claim: str) -> None:
    pod["metadata"] |= {"name": "orw-worker", "ownerReferences": [controller_reference("worker", uid)]}


def by_labels(pod: Document, _uid: str, claim: str) -> None:
    pod["metadata"]["labels"] = {"openrl.io/worker": "worker", "openrl.io/claim": claim}


def by_annotation(pod: Document, uid: str, _claim: str) -> None:
    pod["metadata"]["annotations"] = {"openrl.io/workload": f"worker/{uid}"}


def by_claim(pod: Document, uid: str, claim: str) -> None:
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    pod["metadata"]["ownerReferences"] = [controller_reference("worker", uid)]


@pytest.mark.parametrize("refer", [by_owner, by_name, by_labels, by_annotation, by_claim])
async def test_nothing_in_other_namespaces_holds_a_workload(
    cluster: SimulatedCluster, refer: Reference
) -> None:
    async with simulated_controller(cluster, SETTINGS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "worker", shared=False)
        pod = plain_pod("stays")
        refer(pod, cluster.server.get(WORKLOADS, "worker", NAMESPACE).uid, claim_of(cluster, "worker"))
        pod["metadata"]["finalizers"] = ["tenant-a.example.com/stay"]
        cluster.server.create(PODS, "default", pod)
        await anyio.sleep(5)
        cluster.workloads.delete("worker")
        cluster.workloads.submit(workload("next", shared=False))
        await anyio.sleep(60)
        assert cluster.workloads.get("worker") is None
        assert row(cluster, "next")[0] == "Running"
        assert not [
            entry
            for entry in cluster.calls(client="controller")
            if entry.request.namespace == "default" and entry.request.writes
        ]


async def test_ledgers_and_claims_of_other_namespaces_change_nothing(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster, SETTINGS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        for kind in (CLAIMS, LEDGERS):
            for record in cluster.server.store.all(kind, NAMESPACE):
                copy = record.copy()
                for field in ("uid", "resourceVersion", "namespace", "ownerReferences"):
                    copy["metadata"].pop(field, None)
                cluster.server.create(kind, "default", copy)
        await submit(cluster, "second")
        cluster.workloads.delete("first")
        cluster.workloads.delete("second")
        await anyio.sleep(900)
        assert not cluster.workloads.ledgers()
        assert len(cluster.server.store.all(LEDGERS, "default")) == 1
        assert len(cluster.server.store.all(CLAIMS, "default")) == 1


def orphan(cluster: SimulatedCluster, name: str) -> None:
    """Remove the owner of a worker's Pod, as garbage collection does for `--cascade=orphan`."""

    def change(document: Document) -> None:
        document["metadata"].pop("ownerReferences")

    cluster.server.edit(PODS, cluster.workloads.pod_key(name), change)


@pytest.mark.parametrize("delete_first", [False, True])
async def test_the_seat_of_an_orphaned_pod_stays_until_the_pod_ends(
    cluster: SimulatedCluster, *, delete_first: bool
) -> None:
    """Two workers share a device, a third waits. The orphaned Pod counts as one worker, with its seat."""
    async with simulated_controller(cluster, SHARING):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "a", "b", "c")
        claim, uid = claim_of(cluster, "a"), pod_uid(cluster, "a")
        if delete_first:
            document = cluster.server.get(WORKLOADS, "a", NAMESPACE).copy()
            document["metadata"]["finalizers"].append("orphan")
            cluster.server.store.put(WORKLOADS, document)
            cluster.workloads.delete("a")
            await anyio.sleep(2)
            orphan(cluster, "a")
            document = cluster.server.get(WORKLOADS, "a", NAMESPACE).copy()
            document["metadata"]["finalizers"].remove("orphan")
            cluster.server.store.put(WORKLOADS, document)
        else:
            orphan(cluster, "a")
            cluster.workloads.delete("a")
        await anyio.sleep(1800)
        assert cluster.workloads.get("a") is None
        assert pod_uid(cluster, "a") == uid
        found = seat_of(cluster, "a")
        assert found is not None
        assert found[0] == claim
        assert row(cluster, "b")[0] == "Running"
        assert row(cluster, "c")[0] == "Pending"
        cluster.kubelet.succeed(cluster.workloads.pod_key("a"))
        await anyio.sleep(1800)
        assert seat_of(cluster, "a") is None
        assert row(cluster, "c")[0] == "Running"


async def test_an_orphaned_pod_counts_as_one_worker(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster, SHARING):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "a")
        orphan(cluster, "a")
        cluster.workloads.delete("a")
        await submit(cluster, "b", "c")
        await anyio.sleep(60)
        assert claim_of(cluster, "b") == seat_of(cluster, "a")[0]  # type: ignore[index]
        assert row(cluster, "b")[0] == "Running"
        assert row(cluster, "c")[0] == "Pending"


async def test_a_new_worker_of_the_name_leaves_the_orphaned_pod_alone(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster, SHARING):
        cluster.fleet.add_nodes(2)
        await submit(cluster, "a")
        uid = pod_uid(cluster, "a")
        orphan(cluster, "a")
        cluster.workloads.delete("a")
        await cluster.settle()
        await submit(cluster, "a")
        assert pod_uid(cluster, "a") == uid
        assert row(cluster, "a")[2] == "PodConflict"


async def test_a_pod_that_lost_its_owner_is_still_its_workers(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster, SHARING):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "a")
        orphan(cluster, "a")
        await anyio.sleep(60)
        assert row(cluster, "a")[0] == "Running"
        cluster.kubelet.fail(cluster.workloads.pod_key("a"), "out of memory")
        await anyio.sleep(60)
        assert row(cluster, "a")[3] == "PodFailed: container worker exited with code 1 (Error: out of memory)"
        assert not cluster.workloads.ledgers()
        assert count_calls(cluster, "create", PODS, client="controller") == 1
