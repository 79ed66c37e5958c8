"""Contract §5.1: deletion of a Workload, in the order Pod, seat, ledger, claim, finalizer."""

from __future__ import annotations

import anyio
import pytest

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.chaos.scripted import Faults, LoseAnswer, Meanwhile
from simulation.checks.invariants import InvariantChecker
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import (
    claim_of,
    controller_reference,
    edit_seats,
    plain_pod,
    pod_uid,
    row,
    seat_of,
    submit,
    writes_of,
)

pytestmark = pytest.mark.anyio


async def test_teardown_order_is_pod_seat_ledger_claim_finalizer(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        mark, revision = len(cluster.audit), cluster.server.store.revision
        cluster.workloads.delete("worker")
        await cluster.settle()

        assert writes_of(cluster, mark) == [
            "delete pods",
            "patch claimledgers",
            "delete claimledgers",
            "delete resourceclaims",
            "patch workloads",
        ]
    gone = [
        change.kind
        for change in cluster.server.history()
        if change.revision > revision and change.type.value == "DELETED"
    ]
    # The claim's protection finalizer keeps it briefly after the ledger; all else is strictly in order.
    assert [kind for kind in gone if kind is not CLAIMS] == [PODS, LEDGERS, WORKLOADS]
    assert cluster.workloads.is_empty()


async def test_a_seat_adopted_meanwhile_by_another_process_is_released_too(cluster: SimulatedCluster) -> None:
    """When the release is written, the seat has a new assignment ID, but it still belongs to this worker."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
        claim = claim_of(cluster, "worker")

        def adopt(seats: list[Document]) -> list[Document]:
            return [{**seat, "assignmentID": "adopted"} for seat in seats]

        hit = faults.add(Meanwhile(lambda: edit_seats(cluster, claim, adopt)), verb="patch", kind=LEDGERS)
        cluster.workloads.delete("worker")
        await cluster.wait_until(lambda: cluster.workloads.get("worker") is None, "it is not gone")
        assert hit.hits == 1
        assert cluster.server.documents(LEDGERS, cluster.workloads.namespace) == []


async def test_the_seat_stays_while_the_pod_terminates(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        claim = claim_of(cluster, "worker")
        cluster.kubelet.pause()
        cluster.workloads.delete("worker")
        await anyio.sleep(300)

        pod = cluster.workloads.pod("worker")
        assert pod is not None, "the Pod is never force-deleted"
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 30, "with its own grace period"
        assert cluster.workloads.seats() == {claim: ["worker"]}
        assert cluster.workloads.get("worker") is not None
        cluster.kubelet.resume()
        await cluster.wait_until(cluster.workloads.is_empty, "something stays")
    assert not invariants.violations


async def test_every_seat_of_the_uid_is_released_recorded_or_not(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        await submit(cluster, "lora", shared=False)
    # An unrecorded seat: it has the worker's UID, on a claim that the status does not name.
    seat = seat_of(cluster, "worker")
    assert seat is not None
    edit_seats(
        cluster, claim_of(cluster, "lora"), lambda seats: [*seats, {**seat[1], "assignmentID": "unrecorded"}]
    )
    cluster.workloads.delete("worker")
    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()

    assert cluster.workloads.get("worker") is None
    assert list(cluster.workloads.seats().values()) == [["lora"]]


async def test_a_pod_missing_from_the_cache_is_still_awaited(cluster: SimulatedCluster) -> None:
    """A final live read must show that the Pod is gone."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
        workload = cluster.workloads.get("worker")
        assert workload is not None
        owner = controller_reference("worker", workload["metadata"]["uid"])
        claim = claim_of(cluster, "worker")
        late = plain_pod("orw-worker", owner=owner, claim=claim, node="gpu-node-0")
        cluster.watches.lag_seconds = lambda _client, kind: 3.0 if kind is PODS else 0.0
        # A Pod of another process arrives just before the live read.
        faults.add(
            Meanwhile(
                lambda: (
                    cluster.server.document(PODS, "orw-worker", "openrl-system")
                    or cluster.server.create(PODS, "openrl-system", late)
                )
            ),
            verb="get",
            kind=PODS,
        )
        cluster.workloads.delete("worker")
        await cluster.settle()
    assert cluster.workloads.is_empty()
    assert not invariants.violations


async def test_a_terminating_pod_is_reported_after_ten_seconds(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        cluster.kubelet.pause()
        cluster.workloads.delete("worker")
        await anyio.sleep(9)
        assert row(cluster, "worker") == ("Running", "True", "Placed", "")
        await anyio.sleep(2)
        text = "WaitingForPodGone: orw-worker on gpu-node-0"
        assert row(cluster, "worker") == ("Running", "True", "Placed", text)


async def test_a_lost_answer_to_the_pod_deletion_releases_nothing_early(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "worker")
        faults.add(LoseAnswer(), verb="delete", kind=PODS)
        faults.add(LoseAnswer(), verb="patch", kind=LEDGERS)
        faults.add(LoseAnswer(), verb="delete", kind=LEDGERS)
        faults.add(LoseAnswer(), verb="delete", kind=CLAIMS)
        faults.add(LoseAnswer(), verb="patch", kind=WORKLOADS)
        cluster.workloads.delete("worker")
        await cluster.settle()
    assert cluster.workloads.is_empty()
    assert not invariants.violations


async def test_a_new_workload_of_the_same_name_gets_a_pod_of_its_own(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        uid = pod_uid(cluster, "worker")
        cluster.workloads.delete("worker")
        await cluster.wait_until(lambda: cluster.workloads.get("worker") is None, "the Workload stays")
        await submit(cluster, "worker")
        assert row(cluster, "worker")[0] == "Running"
        assert pod_uid(cluster, "worker") not in {"", uid}
