"""Each write that can add a seat checks everything again: host memory, cordon, taints, roles."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import LEDGERS, PODS
from simulation.chaos.scripted import Faults, Meanwhile
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    claim_of,
    edit_seats,
    plain_pod,
    remove_seat,
    seat_of,
    settings_with,
    submit,
)

pytestmark = pytest.mark.anyio


async def test_a_seat_is_not_added_on_a_host_without_free_memory(cluster: SimulatedCluster) -> None:
    """A seat on a node is added only while the node has enough host memory for it."""
    faults = Faults()
    settings = settings_with(placement_timeout_seconds=0.0)
    async with simulated_controller(cluster, settings, interceptor=faults):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "creator")
        claim = claim_of(cluster, "creator")
        document = workload("worker")
        document["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "100Gi"
        cluster.workloads.submit(document)
        created = cluster.workloads.get("worker")
        assert created is not None
        unrecorded: Document = {
            "workload": "worker",
            "workloadUID": created["metadata"]["uid"],
            "assignmentID": "left-by-a-crash",
            "ownerID": "worker",
            "exclusive": False,
            "hostRequest": "100Gi",
        }
        edit_seats(cluster, claim, lambda seats: [*seats, unrecorded])

        def meanwhile() -> None:
            remove_seat(cluster, claim, "worker")
            cluster.server.create(PODS, "default", plain_pod("guest", memory="450Gi", node="gpu-node-0"))

        rule = faults.add(Meanwhile(meanwhile), verb="patch", kind=LEDGERS)
        await anyio.sleep(20)
        assert rule.hits == 1
        seat = seat_of(cluster, "worker")
        assert seat is None or seat[0] != claim


MEANWHILE = {
    "a full host": lambda cluster: cluster.server.create(
        PODS, "default", plain_pod("guest", memory="511Gi", node="gpu-node-0")
    ),
    "a cordon": lambda cluster: cluster.fleet.cordon("gpu-node-0"),
    "a role": lambda cluster: cluster.fleet.set_labels("gpu-node-0", {"openrl.io/sampler": "true"}),
}


@pytest.mark.parametrize("change", MEANWHILE.values(), ids=MEANWHILE)
async def test_a_lost_seat_without_a_pod_is_restored_only_where_the_worker_could_join(
    cluster: SimulatedCluster, change: Callable[[SimulatedCluster], object]
) -> None:
    """The process crashed after the commit. Then the seat was removed, and the node closed to the worker."""
    settings = settings_with(placement_timeout_seconds=0.0)
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, settings):
        await submit(cluster, "creator", "worker")
        claim = claim_of(cluster, "worker")
        assert claim == claim_of(cluster, "creator")
    cluster.server.delete(PODS, "orw-worker", "openrl-system", grace_seconds=0)
    remove_seat(cluster, claim, "worker")
    change(cluster)
    mark = len(cluster.server.history(LEDGERS))
    async with simulated_controller(cluster, settings, identity="successor"):
        await anyio.sleep(60)
    later = [change.record.document for change in cluster.server.history(LEDGERS)[mark:]]
    joined = [
        seat
        for ledger in later
        for seat in ledger["spec"].get("seats") or ()
        if ledger["spec"]["claimName"] == claim and seat["workload"] == "worker"
    ]
    assert joined == []
    assert claim_of(cluster, "worker") != claim, "its own claim asks kube-scheduler"
