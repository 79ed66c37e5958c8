"""Contract §6: which event reconciles which Workload. No retry happens: the retry interval is hours."""

from __future__ import annotations

import anyio
import pytest

from controller.queue.triggers import FOREIGN_STATUS_DELAY_SECONDS
from simulation.apiserver.kinds import CLAIMS, EVENTS, LEDGERS, PODS, WORKLOADS
from simulation.checks.invariants import violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import DRIVER, NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    claim_of,
    delete_claim,
    edit_seats,
    edit_status,
    foreign_seat,
    reconciles,
    record_reconciles,
    remove_seat,
    row,
    submit,
)
from tests.contract.hours import HOURS, SOON_SECONDS, soon

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
SECOND_OF_CREATION = 1.0
"""Creation times are whole seconds."""
ONE_SEAT = HOURS.model_copy(update={"max_seats_per_claim": 1})
TWO_SEATS = HOURS.model_copy(update={"max_seats_per_claim": 2})


# Its own Workload and Pod.


async def test_a_new_workload_is_reconciled_alone(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "resident")
        reconciled = record_reconciles(process)
        cluster.workloads.submit(workload("newcomer", memory="200Gi"))
        await soon()
        assert set(reconciled) == {"newcomer"}


async def test_others_changes_of_a_workload_trigger_a_reconcile_but_own_writes_do_not(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "worker")
        reconciled = record_reconciles(process)
        edit_status(cluster, "worker", phase="Placing")
        await soon()
        assert reconciled == [], "two processes do not react to each other's writes at once"
        await anyio.sleep(FOREIGN_STATUS_DELAY_SECONDS)
        assert reconciled == ["worker"]
        assert row(cluster, "worker")[0] == "Running"
        reconciled.clear()
        patch = {"spec": {"template": {"metadata": {"labels": {"new": "label"}}}}}
        cluster.server.patch(WORKLOADS, "worker", NAMESPACE, patch)
        await soon()
        assert reconciled == ["worker"]
        cluster.workloads.delete("worker")
        await soon()
        assert len(reconciled) > 1
    assert cluster.workloads.is_empty()


@pytest.mark.parametrize("what", ["phase", "vanished", "deletion"])
async def test_a_change_of_its_pod_triggers_a_reconcile(cluster: SimulatedCluster, what: str) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "worker", "other")
        cluster.kubelet.pause()
        reconciled = record_reconciles(process)
        match what:
            case "phase":
                cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))
            case "vanished":
                cluster.server.delete(PODS, "orw-worker", NAMESPACE, grace_seconds=0)
            case _:
                cluster.server.delete(PODS, "orw-worker", NAMESPACE)
        await soon()
        assert reconciled[0] == "worker"
        # When it ends, its seat is freed, which also triggers the other worker on the claim.
        assert set(reconciled) == ({"worker", "other"} if what == "phase" else {"worker"})


async def test_delayed_status_reconciles_run_oldest_first(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(
        cluster, HOURS.model_copy(update={"max_concurrent_reconciles": 1})
    ) as process:
        await submit(cluster, "z-older")
        await anyio.sleep(SECOND_OF_CREATION)
        await submit(cluster, "a-younger")
        reconciled = record_reconciles(process)
        edit_status(cluster, "a-younger", phase="Placing")
        edit_status(cluster, "z-older", phase="Placing")
        await anyio.sleep(FOREIGN_STATUS_DELAY_SECONDS)
        await soon()
        assert reconciled == ["z-older", "a-younger"]


# Claims.


async def test_an_allocated_claim_is_offered_to_waiting_workers(cluster: SimulatedCluster) -> None:
    """The creator gets a device. A worker whose own claim is refused joins the creator's claim at once."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS):
        await submit(cluster, "holder", shared=False)
        await submit(cluster, "first", "second")
        assert cluster.workloads.in_phase("Pending") == ["first", "second"]
        cluster.workloads.delete("holder")
        await cluster.wait_until(
            lambda: len(cluster.workloads.in_phase("Running")) == 2, "not both run", limit_seconds=15
        )
    assert violations_at_rest(cluster) == []


@pytest.mark.parametrize(
    ("shared", "cause"), [(True, "claims that fit are full"), (False, "other workers hold devices that fit")]
)
async def test_an_allocation_activates_workers_that_could_not_explain_their_wait(
    cluster: SimulatedCluster, shared: bool, cause: str
) -> None:
    """kube-scheduler refuses the second Pod before the cache shows the first allocation."""
    cluster.fleet.add_nodes(1)
    cluster.fleet.add_nodes(1, NodeShape(gpu_memory="8Gi"), prefix="small")
    cluster.watches.lag_seconds = lambda _client, kind: 2 * SOON_SECONDS if kind is CLAIMS else 0.0
    async with simulated_controller(cluster, ONE_SEAT) as process:
        cluster.workloads.submit(workload("first", shared=shared), workload("second", shared=shared))
        await soon()
        waiting = cluster.workloads.in_phase("Pending")
        assert len(waiting) == 1
        assert cause not in row(cluster, waiting[0])[3]
        await anyio.sleep(2 * SOON_SECONDS)
        assert row(cluster, waiting[0])[3].endswith(cause)
        reconciled = record_reconciles(process)
        cluster.workloads.submit(workload("third", memory="4Gi", shared=False))
        await anyio.sleep(3 * SOON_SECONDS)
        assert cluster.workloads.in_phase("Running")[-1:] == ["third"]
        assert set(reconciled) == {"third"}, "the other one already has an explanation"


async def test_an_allocation_activates_no_worker_whose_explanation_stays_the_same(
    cluster: SimulatedCluster,
) -> None:
    """One worker can never be placed; the other waits for a device that another controller's claim holds."""
    cluster.fleet.add_nodes(1, NodeShape(gpus=2, gpu_memory="8Gi"), prefix="small")
    cluster.fleet.add_nodes(1)
    body = {
        "metadata": {"name": "foreign"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
    }
    cluster.server.create(CLAIMS, NAMESPACE, body)
    device = {"request": "gpu", "driver": DRIVER, "pool": "gpu-node-0", "device": "gpu-0"}
    status = {"status": {"allocation": {"devices": {"results": [device]}}}}
    cluster.server.patch(CLAIMS, "foreign", NAMESPACE, status, subresource="status")
    async with simulated_controller(cluster, ONE_SEAT) as process:
        await submit(cluster, "hopeless", memory="200Gi")
        await submit(cluster, "unlucky", memory="20Gi", shared=False)
        assert row(cluster, "unlucky")[3].endswith("no free device of 20Gi")
        reconciled = record_reconciles(process)
        await submit(cluster, "placed", memory="4Gi", shared=False)
        cluster.workloads.delete("placed")
        await soon()
        assert set(reconciled) == {"placed"}


async def test_a_terminating_claim_triggers_its_holders(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "first", "second")
        reconciled = record_reconciles(process)
        delete_claim(cluster, claim_of(cluster, "first"))
        await soon()
        assert set(reconciled) == {"first", "second"}


async def test_a_deleted_claim_triggers_its_creator(cluster: SimulatedCluster) -> None:
    """The claim of its predecessor has ended. No ledger names the worker, which waits only for that name."""
    cluster.fleet.add_nodes(1)
    cluster.workloads.submit(workload("worker"))
    worker = cluster.workloads.get("worker")
    assert worker is not None
    name = f"claim-worker-{worker['metadata']['uid'][:8]}"
    body = {
        "metadata": {"name": name, "labels": {"openrl.io/managed": "true"}, "finalizers": ["example.com/x"]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
    }
    cluster.server.create(CLAIMS, NAMESPACE, body)
    cluster.server.delete(CLAIMS, name, NAMESPACE)
    async with simulated_controller(cluster, HOURS):
        await soon()
        assert row(cluster, "worker")[2] == "WaitingForPredecessorClaim"
        cluster.server.patch(CLAIMS, name, NAMESPACE, {"metadata": {"finalizers": None}})
        await soon()
        assert row(cluster, "worker")[0] == "Running"


# Ledgers.


@pytest.mark.parametrize("how", ["a deletion", "an end", "a manual edit"])
async def test_a_freed_seat_goes_to_the_longest_waiting_worker_that_fits(
    cluster: SimulatedCluster, how: str
) -> None:
    """The oldest needs more memory than the shared GPU has, so the second oldest gets the seat."""
    cluster.fleet.add_nodes(1)
    cluster.fleet.add_node("big", NodeShape(gpu_memory="120Gi"))
    async with simulated_controller(cluster, TWO_SEATS):
        await submit(cluster, "lora", shared=False, memory="100Gi")
        await submit(cluster, "first", "second")
        await submit(cluster, "oldest", memory="100Gi")
        await submit(cluster, "older", "younger")
        shared = claim_of(cluster, "first")
        assert cluster.workloads.in_phase("Pending") == ["older", "oldest", "younger"]
        if how == "a deletion":
            cluster.workloads.delete("second")
        elif how == "an end":
            cluster.kubelet.succeed(cluster.workloads.pod_key("second"))
        else:
            cluster.workloads.delete("second")
            cluster.kubelet.pause()
            await soon()
            cluster.server.delete(PODS, "orw-second", NAMESPACE, grace_seconds=0)
            cluster.kubelet.resume()
        await soon()
        assert cluster.workloads.seats()[shared] == ["first", "older"]
        assert row(cluster, "older")[0] == "Running"
    assert violations_at_rest(cluster, limit=2) == []


async def test_an_older_worker_that_cannot_use_the_seat_does_not_block_a_younger_one(
    cluster: SimulatedCluster,
) -> None:
    """An older worker that waits for its Pod on an allocated claim does not block it either."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, TWO_SEATS):
        await submit(cluster, "first", "second")
        cluster.kubelet.hold(cluster.workloads.pod_key("third"))
        await submit(cluster, "third", "fourth")
        assert cluster.workloads.in_phase("Pending") == ["fourth", "third"]
        cluster.workloads.delete("first")
        await soon()
        assert row(cluster, "third")[0] == "Placing", "it has a seat, and its Pod has not started"
        cluster.workloads.delete("second")
        await soon()
        assert row(cluster, "fourth")[0] == "Running"


async def test_two_freed_seats_go_to_the_two_oldest(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, TWO_SEATS):
        await submit(cluster, "first", "second", "w-3", "w-2", "w-1")
        for name in ("first", "second"):
            cluster.workloads.delete(name)
        await cluster.settle()
        assert sorted(cluster.workloads.in_phase("Running")) == ["w-2", "w-3"]
        assert row(cluster, "w-1")[0] == "Pending"


async def test_a_changed_ledger_triggers_its_seat_holders_and_the_workers_of_live_pods(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "first", "second")
        reconciled = record_reconciles(process)
        remove_seat(cluster, claim_of(cluster, "first"), "second")
        await soon()
        assert {"first", "second"} <= set(reconciled)
        reconciled.clear()
        cluster.server.delete(LEDGERS, cluster.workloads.ledgers()[0]["metadata"]["name"], NAMESPACE)
        await soon()
        assert {"first", "second"} <= set(reconciled)
    assert violations_at_rest(cluster) == []


async def test_an_unrecorded_seat_triggers_its_worker_alone(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "first", "second")
        await submit(cluster, "lora", shared=False)
        first = cluster.workloads.get("first")
        assert first is not None
        reconciled = record_reconciles(process)
        unrecorded = {**foreign_seat("first", uid=first["metadata"]["uid"]), "assignmentID": "unrecorded"}
        edit_seats(cluster, claim_of(cluster, "lora"), lambda seats: [*seats, unrecorded])
        await anyio.sleep(0.01)
        assert reconciled[0] == "first"
        await soon()
        assert "second" not in reconciled


async def test_a_booking_triggers_no_other_worker(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, HOURS) as process:
        await submit(cluster, "creator", "resident")
        cluster.workloads.submit(*(workload(f"big-{n}", memory="200Gi") for n in range(5)))
        await soon()
        reconciled = record_reconciles(process)
        cluster.workloads.submit(workload("joiner"))
        await soon()
        assert row(cluster, "joiner")[0] == "Running"
        assert set(reconciled) == {"joiner"}


# What a hand-off costs.


async def test_a_hand_off_among_five_hundred_waiting_workers_costs_fourteen_requests_and_few_reconciles(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, TWO_SEATS) as process:
        await submit(cluster, "first", "second")
        cluster.workloads.submit(*(workload(f"waiter-{n:03}") for n in range(500)))
        await cluster.settle(limit_seconds=3600)
        assert len(cluster.workloads.in_phase("Pending")) == 500
        shared = claim_of(cluster, "first")
        for leaving in ("first", "second"):
            mark, before = len(cluster.audit), reconciles(process)
            cluster.workloads.delete(leaving)
            await cluster.settle()
            requests = [
                entry.request
                for entry in cluster.calls(since=mark)
                if entry.request.kind is not EVENTS and entry.request.verb not in {"watch", "list"}
            ]
            assert len(requests) <= 14, [str(request) for request in requests]
            assert reconciles(process) - before <= 15
        assert len(cluster.workloads.in_phase("Running")) == 2
        assert cluster.workloads.seats()[shared] == ["waiter-000", "waiter-001"]
