"""Unusual but legal cluster states: no worker gets stuck in them or loses its seat.

Users, admins and other controllers may cause them: variables of sidecars, ledgers and claims with unusual or
used names, removed labels, foreign finalizers, quotas on claims, a scheduler that never responds.
"""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from informers.errors import Forbidden, TooManyRequests
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.chaos.scripted import Faults, Refuse
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    LIMIT_OF_TWO,
    assert_sound,
    claim_of,
    count_calls,
    foreign_seat,
    holdings,
    pod_uid,
    remove_seat,
    row,
    set_unschedulable,
    settings_with,
    submit,
    writes_of,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
MINUTE = settings_with(placement_timeout_seconds=60.0)
SWEPT_SECONDS = 1500.0
"""Longer than two sweeps and the suspicion period between them."""


# What users and admins write.


async def test_our_variable_in_a_sidecar_is_ignored(cluster: SimulatedCluster) -> None:
    """If the variable counted as the Pod's assignment, the Pod would be deleted and recreated in a loop."""
    cluster.fleet.add_nodes(1)
    worker = workload("worker")
    variable = {"name": "OPEN_RL_ASSIGNMENT_ID", "value": "of the sidecar"}
    sidecar = {"name": "sidecar", "image": "sidecar:1", "env": [variable]}
    worker["spec"]["template"]["spec"]["containers"].insert(0, sidecar)
    async with simulated_controller(cluster):
        cluster.workloads.submit(worker)
        await cluster.settle()
        assert count_calls(cluster, "create", PODS) == 1
        assert row(cluster, "worker")[0] == "Running"
        cluster.workloads.delete("worker")
        await cluster.settle()
    assert cluster.workloads.is_empty()


def odd_ledger(*seats: Document) -> Document:
    """Return a ledger whose claim name does not follow our naming."""
    return {
        "apiVersion": LEDGERS.api_version,
        "kind": LEDGERS.kind,
        "metadata": {"name": "odd"},
        "spec": {"claimName": "odd", "seats": list(seats)},
    }


async def test_a_ledger_with_a_foreign_claim_name_does_not_stop_the_controller(
    cluster: SimulatedCluster,
) -> None:
    """The ledger is not ours, so the sweep skips it and continues."""
    cluster.fleet.add_nodes(1)
    cluster.server.create(LEDGERS, NAMESPACE, odd_ledger(foreign_seat("another")))
    async with simulated_controller(cluster):
        await anyio.sleep(SWEPT_SECONDS)
        await submit(cluster, "worker")
    assert row(cluster, "worker")[0] == "Running"
    assert cluster.workloads.seats()["odd"] == ["another"]


async def test_a_seat_in_a_foreign_ledger_does_not_block_deletion(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
        record = cluster.server.get(WORKLOADS, "worker", NAMESPACE)
        cluster.server.create(LEDGERS, NAMESPACE, odd_ledger(foreign_seat("worker", uid=record.uid)))
        await cluster.settle()
        assert row(cluster, "worker")[0] == "Running"
        cluster.workloads.delete("worker")
        await cluster.settle()
    assert cluster.workloads.get("worker") is None
    assert holdings(cluster) == ["ClaimLedger odd"]


async def test_a_foreign_claim_with_our_own_claim_name_is_skipped(
    cluster: SimulatedCluster,
) -> None:
    """A worker that waited for the foreign claim, as for a terminating claim of ours, would wait forever."""
    cluster.fleet.add_nodes(1)
    cluster.workloads.submit(workload("worker"))
    uid = cluster.server.get(WORKLOADS, "worker", NAMESPACE).uid
    taken = f"claim-worker-{uid[:8]}"
    gpu = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    devices = {"requests": [{"name": "gpu", "exactly": gpu}]}
    theirs = cluster.server.create(
        CLAIMS,
        NAMESPACE,
        {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "metadata": {"name": taken},
            "spec": {"devices": devices},
        },
    )
    async with simulated_controller(cluster):
        await cluster.settle()
    assert row(cluster, "worker")[0] == "Running"
    assert claim_of(cluster, "worker") not in {"", taken}
    assert cluster.server.get(CLAIMS, taken, NAMESPACE).version == theirs.version
    assert list(cluster.workloads.seats()) == [claim_of(cluster, "worker")]


async def test_a_waiting_worker_whose_claim_lost_its_label_still_falls_back_to_a_seat(
    cluster: SimulatedCluster,
) -> None:
    """A claim without its label is not in the cache. Repair restores the label, and the worker moves."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submit(cluster, "creator", "second", "waiter")
        own = claim_of(cluster, "waiter")
        cluster.server.patch(CLAIMS, own, NAMESPACE, {"metadata": {"labels": {"openrl.io/managed": None}}})
        await cluster.settle()
        assert own in {claim["metadata"]["name"] for claim in cluster.workloads.claims()}
        cluster.workloads.delete("second")
        await cluster.settle()
    assert row(cluster, "waiter")[0] == "Running"
    assert claim_of(cluster, "waiter") == claim_of(cluster, "creator")
    assert violations_at_rest(cluster, limit=2) == []


async def test_a_manually_removed_seat_is_restored_even_with_an_invalid_spec(
    cluster: SimulatedCluster,
) -> None:
    """The seat is restored as recorded, although the spec of the running worker is now invalid."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submit(cluster, "worker")
    claim, uid = claim_of(cluster, "worker"), pod_uid(cluster, "worker")
    # An earlier, less strict schema allowed this.
    spoilt = cluster.server.get(WORKLOADS, "worker", NAMESPACE).copy()
    spoilt["spec"]["accelerator"]["memory"] = "0"
    cluster.server.store.put(WORKLOADS, spoilt)
    remove_seat(cluster, claim, "worker")
    async with simulated_controller(cluster, identity="successor"):
        await anyio.sleep(SWEPT_SECONDS)
    assert cluster.workloads.seats() == {claim: ["worker"]}
    assert pod_uid(cluster, "worker") == uid
    assert_sound(cluster, "worker")


async def test_a_worker_moves_although_a_finalizer_keeps_its_pod(cluster: SimulatedCluster) -> None:
    """The deleted Pod can never be bound, so the new seat is committed at once and kept for two minutes."""
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster, limit=2)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submit(cluster, "creator", "second", "waiter")
        own, shared = claim_of(cluster, "waiter"), claim_of(cluster, "creator")
        hold(cluster, "waiter", ["example.com/hold"])
        cluster.workloads.delete("second")
        await anyio.sleep(60)
        assert claim_of(cluster, "waiter") == shared
        assert cluster.workloads.seats() == {shared: ["creator", "waiter"], own: ["waiter"]}, (
            "the seat of the deleted Pod is kept as well until it is gone"
        )
        hold(cluster, "waiter", None)
        await cluster.settle()
    assert claims_named_by(cluster, "waiter") == {own, shared}
    assert row(cluster, "waiter")[0] == "Running"
    assert claim_of(cluster, "waiter") == shared
    assert violations_at_rest(cluster, limit=2) == []
    assert not invariants.violations


@pytest.mark.parametrize("marked", [False, True], ids=["pending", "failed by garbage collection"])
async def test_a_seat_is_given_back_if_the_earlier_pod_stays_for_two_minutes(
    cluster: SimulatedCluster, marked: bool
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(
        cluster, LIMIT_OF_TWO.model_copy(update={"retry_interval_seconds": 10.0})
    ):
        await submit(cluster, "creator", "second", "waiter")
        own, shared = claim_of(cluster, "waiter"), claim_of(cluster, "creator")
        hold(cluster, "waiter", ["example.com/hold"])
        cluster.workloads.delete("second")
        await anyio.sleep(20)
        if marked:
            patch = {"status": {"phase": "Failed"}}
            cluster.server.patch(PODS, "orw-waiter", NAMESPACE, patch, subresource="status")
        await anyio.sleep(120)
        assert cluster.workloads.seats() == {shared: ["creator"], own: ["waiter"]}
        assert row(cluster, "waiter") == (
            "Pending",
            "False",
            "WaitingForPodGone",
            "WaitingForPodGone: orw-waiter on no node",
        )
        mark = len(cluster.audit)
        await anyio.sleep(300)
        assert writes_of(cluster, mark) == [], "the Pod that is still there wins nothing back"
        hold(cluster, "waiter", None)
        await cluster.settle()
    assert row(cluster, "waiter")[0] == "Running"
    assert claim_of(cluster, "waiter") == shared
    assert violations_at_rest(cluster, limit=2) == []


def claims_named_by(cluster: SimulatedCluster, name: str) -> set[str]:
    """Return every claim that a worker's status ever named."""
    records = [change.record for change in cluster.server.history(WORKLOADS)]
    statuses = [record.document.get("status") or {} for record in records if record.key.name == name]
    return {status["claimName"] for status in statuses if status.get("claimName")}


def hold(cluster: SimulatedCluster, name: str, finalizers: list[str] | None) -> None:
    """Set or remove the finalizers of a worker's Pod."""
    patch = {"metadata": {"finalizers": finalizers}}
    cluster.server.patch(PODS, cluster.workloads.pod_key(name).name, NAMESPACE, patch)


# What others in the cluster do, or never do.


async def test_a_worker_that_kube_scheduler_never_handles_times_out(cluster: SimulatedCluster) -> None:
    """kube-scheduler is down, or a scheduling gate is never removed: the Pod gets no condition."""
    cluster.fleet.add_nodes(1)
    cluster.scheduler.pause()
    async with simulated_controller(cluster, MINUTE):
        await submit(cluster, "worker")
        assert row(cluster, "worker")[0] == "Placing"
        await anyio.sleep(60)
        await cluster.settle()
    phase, _, reason, text = row(cluster, "worker")
    assert (phase, reason) == ("Failed", "Unschedulable")
    assert text.startswith("PlacementTimeout: waited 1m; last: ")
    assert holdings(cluster) == []


async def test_a_worker_whose_claim_is_refused_by_a_quota_reports_it_and_times_out(
    cluster: SimulatedCluster,
) -> None:
    """Repeated errors do not prevent the placement timeout, and no seat is held."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    refuse = Refuse(partial(Forbidden, "exceeded quota: claims", status=403))
    faults.add(refuse, verb="create", kind=CLAIMS, times=None)
    async with simulated_controller(cluster, MINUTE, interceptor=faults):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(10)
        assert row(cluster, "worker")[3] == "PodRejected: ResourceClaim: exceeded quota: claims"
        assert cluster.workloads.seats() == {}
        await anyio.sleep(60)
        text = "PlacementTimeout: waited 1m; last: PodRejected: ResourceClaim: exceeded quota: claims"
        assert row(cluster, "worker") == ("Failed", "False", "Unschedulable", text)
        await cluster.settle()
    assert holdings(cluster) == []


async def test_an_abandoned_claim_is_not_joined_again_before_its_seat_is_released(
    cluster: SimulatedCluster,
) -> None:
    """The release fails once after the status is cleared: the remaining seat must not be adopted."""
    cluster.fleet.add_nodes(2)
    faults = Faults()
    async with simulated_controller(cluster, interceptor=faults):
        await submit(cluster, "creator")
        cluster.scheduler.pause()
        await submit(cluster, "worker")
        stuck = claim_of(cluster, "creator")
        assert claim_of(cluster, "worker") == stuck
        set_unschedulable(cluster, "worker")
        busy = faults.add(Refuse(partial(TooManyRequests, "busy")), verb="patch", kind=LEDGERS)
        await anyio.sleep(125)
        assert busy.hits == 1
        assert claim_of(cluster, "worker") not in {"", stuck}
        cluster.scheduler.resume()
        await cluster.settle()
    assert row(cluster, "worker")[0] == "Running"
    assert claim_of(cluster, "worker") != stuck
    assert violations_at_rest(cluster) == []
