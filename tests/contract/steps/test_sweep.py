"""Contract §5.14: the sweep releases only orphans, after two minutes and live reads."""

from __future__ import annotations

import anyio
import pytest

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import DRIVER
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import (
    claim_of,
    controller_reference,
    edit_seats,
    foreign_seat,
    holdings,
    ledger_key,
    plain_pod,
    pod_uid,
    row,
    submit,
    writes_of,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
ORPHAN = "claim-orphan-00000001"


def make_ledger(cluster: SimulatedCluster, claim: str = ORPHAN, seats: tuple[Document, ...] = ()) -> str:
    body = {
        "metadata": {
            "name": ledger_key(claim).name,
            "labels": {"openrl.io/managed": "true", "openrl.io/claim": claim},
        },
        "spec": {"claimName": claim, "seats": list(seats)},
    }
    return cluster.server.create(LEDGERS, NAMESPACE, body).uid


def make_claim(cluster: SimulatedCluster, name: str = ORPHAN, *, owner: str = "") -> str:
    reference = {"apiVersion": "openrl.io/v1alpha1", "kind": "ClaimLedger", "name": ledger_key(name).name}
    metadata: Document = {"name": name, "labels": {"openrl.io/managed": "true"}}
    if owner:
        metadata["ownerReferences"] = [{**reference, "uid": owner}]
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    body = {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}
    return cluster.server.create(CLAIMS, NAMESPACE, body).uid


async def a_claim_without_its_ledger(cluster: SimulatedCluster) -> None:
    """Garbage collection did not run when the ledger was deleted."""
    cluster.garbage_collector.pause()
    make_claim(cluster, owner="a-ledger-that-is-gone")


async def a_ledger_without_a_claim(cluster: SimulatedCluster) -> None:
    make_ledger(cluster, seats=(foreign_seat("gone"),))


async def a_ledger_without_seats(cluster: SimulatedCluster) -> None:
    make_claim(cluster, owner=make_ledger(cluster))


async def a_seat_of_a_workload_that_is_gone(cluster: SimulatedCluster) -> None:
    make_claim(cluster, owner=make_ledger(cluster, seats=(foreign_seat("gone"),)))


async def a_seat_of_a_workload_that_was_made_anew(cluster: SimulatedCluster) -> None:
    """The finalizer was removed by force, and a new Workload uses the name with another UID."""
    await submit(cluster, "again")
    make_claim(cluster, owner=make_ledger(cluster, seats=(foreign_seat("again", uid="uid-before"),)))


ORPHANS = (
    a_claim_without_its_ledger,
    a_ledger_without_a_claim,
    a_ledger_without_seats,
    a_seat_of_a_workload_that_is_gone,
    a_seat_of_a_workload_that_was_made_anew,
)


@pytest.mark.parametrize("arrange", ORPHANS, ids=lambda f: f.__name__)
async def test_an_orphan_is_released_two_minutes_after_it_was_first_seen(
    cluster: SimulatedCluster, arrange: object
) -> None:
    assert callable(arrange)
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, identity="before"):
        await arrange(cluster)
    async with simulated_controller(cluster):
        await anyio.sleep(115)
        assert any("orphan" in each for each in holdings(cluster))
        await anyio.sleep(15)
        assert not any("orphan" in each for each in holdings(cluster))
    assert row(cluster, "again")[0] in {"", "Running"}


async def test_setting_the_wall_clock_back_keeps_no_orphan(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await a_seat_of_a_workload_that_is_gone(cluster)
    async with simulated_controller(cluster):
        await anyio.sleep(60)
        cluster.clock.jump(-1)
        await anyio.sleep(70)
        assert holdings(cluster) == []


async def test_a_later_orphan_is_released_within_twelve_minutes(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await anyio.sleep(30)
        await a_seat_of_a_workload_that_is_gone(cluster)
        await anyio.sleep(570 - 15)
        assert holdings(cluster)
        await anyio.sleep(15 + 120 + 15)
        assert holdings(cluster) == []


async def test_an_orphan_seat_is_released_ledger_before_claim(cluster: SimulatedCluster) -> None:
    await a_seat_of_a_workload_that_is_gone(cluster)
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster):
        await anyio.sleep(130)
        assert writes_of(cluster) == ["patch claimledgers", "delete claimledgers", "delete resourceclaims"]
    assert not invariants.violations


async def test_the_seat_of_an_ended_worker_is_released(cluster: SimulatedCluster) -> None:
    """An earlier controller kept the seats of ended workers."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, identity="before"):
        await submit(cluster, "first", "second")
        claim = claim_of(cluster, "first")
        uid = cluster.server.get(WORKLOADS, "second", NAMESPACE).uid
        cluster.kubelet.succeed(cluster.workloads.pod_key("second"))
        await cluster.settle()
    edit_seats(cluster, claim, lambda seats: [*seats, foreign_seat("second", uid=uid)])
    async with simulated_controller(cluster):
        await anyio.sleep(130)
    assert cluster.workloads.seats() == {claim: ["first"]}


# What it must not touch.


async def test_a_claim_that_only_has_our_label_is_not_swept(cluster: SimulatedCluster) -> None:
    make_claim(cluster, "claim-looks-like-ours")
    make_claim(cluster, "of-somebody-else")
    await submit(cluster)
    async with simulated_controller(cluster):
        await anyio.sleep(1500)
        assert writes_of(cluster) == []
    assert len(cluster.workloads.claims()) == 2


@pytest.mark.parametrize("has_seat", [True, False])
async def test_a_claim_used_by_a_running_pod_is_not_swept(cluster: SimulatedCluster, has_seat: bool) -> None:
    """The Workload was removed by force and its Pod still runs: nothing is released."""
    cluster.garbage_collector.pause()
    cluster.fleet.add_nodes(1)
    make_claim(cluster, owner=make_ledger(cluster, seats=(foreign_seat("gone"),) if has_seat else ()))
    owner = controller_reference("gone", "another-uid")
    cluster.server.create(
        PODS, NAMESPACE, plain_pod("orw-gone", owner=owner, claim=ORPHAN, node="gpu-node-0")
    )
    async with simulated_controller(cluster):
        await anyio.sleep(1500)
        assert writes_of(cluster) == []
        cluster.server.delete(PODS, "orw-gone", NAMESPACE)
        await anyio.sleep(750)
    assert holdings(cluster) == []


async def test_a_ledger_with_a_seat_of_an_existing_workload_is_never_swept(cluster: SimulatedCluster) -> None:
    """Its claim is gone: repair first places the worker again, and then releases the ledger."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    cluster.kubelet.pause()
    uid = pod_uid(cluster, "worker")
    edit_seats(cluster, claim_of(cluster, "worker"), lambda seats: [*seats, foreign_seat("gone")])
    async with simulated_controller(cluster, identity="successor"):
        await anyio.sleep(130)
        assert cluster.workloads.seats()[claim_of(cluster, "worker")] == ["worker"], (
            "only the orphan is released"
        )
    assert pod_uid(cluster, "worker") == uid


async def test_an_object_that_stops_looking_orphaned_is_not_swept(cluster: SimulatedCluster) -> None:
    """Suspicion is tracked by UID, and starts over once an object is repaired within two minutes."""
    cluster.garbage_collector.pause()
    uid = make_claim(cluster, owner="a-ledger-to-come")
    async with simulated_controller(cluster):
        await anyio.sleep(60)
        cluster.server.store.remove(CLAIMS, ledger_key(ORPHAN)._replace(name=ORPHAN))
        again = make_claim(cluster, owner="a-ledger-to-come")
        assert again != uid
        await anyio.sleep(100)
        assert any(ORPHAN in each for each in holdings(cluster)), "another UID has its own two minutes"
        await anyio.sleep(130)
    assert holdings(cluster) == []


async def test_an_unrecorded_seat_activates_its_workload(cluster: SimulatedCluster) -> None:
    """After a lost event the sweep activates the worker, and repair handles the seat."""
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster) as process:
        await submit(cluster, "worker")
        await submit(cluster, "lora", shared=False)
        before = process.controller.runner.statistics()
        worker = cluster.workloads.get("worker")
        assert worker is not None
        unrecorded = {**foreign_seat("worker", uid=worker["metadata"]["uid"]), "assignmentID": "unrecorded"}
        edit_seats(cluster, claim_of(cluster, "lora"), lambda seats: [*seats, unrecorded])
        await anyio.sleep(700)
        assert process.controller.runner.statistics() != before
    assert sorted(cluster.workloads.seats().values()) == [["lora"], ["worker"]]
    assert violations_at_rest(cluster) == []
