"""Workers that wait in a queue of Kueue, which gates their Pods and adds a finalizer to them."""

from __future__ import annotations

import time

import pytest

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_USER, Cluster
from e2e.harness.workloads import WorkloadClient, one_gpu_nodes, workload
from e2e.kueue.conftest import SetQuota, queued

pytest_plugins = ("e2e.controlplane.fixtures",)

LIMIT_OF_TWO = {"--max-seats-per-claim": "2"}
GATE = "kueue.x-k8s.io/admission"
SEAT_LESS_SECONDS = 180
HAND_OFF_SECONDS = 1.0
PODS_MAX = 2


@pytest.mark.timeout(300)
def test_a_gated_worker_says_so_keeps_no_seat_and_runs_once_it_is_admitted(
    cluster: Cluster, openrl: WorkloadClient, start: Start, set_quota: SetQuota
) -> None:
    one_gpu_nodes(cluster, 2)
    set_quota(1)
    start(LIMIT_OF_TWO)
    openrl.submit(queued(workload("first")))
    openrl.await_phase("first", "Running")

    openrl.submit(queued(workload("second")))
    openrl.await_that(
        lambda: openrl.status("second").get("reason", "").startswith("WaitingForGate: "),
        "no word of the gate",
        timeout_seconds=60,
    )
    assert GATE in openrl.status("second")["reason"]
    openrl.await_that(
        lambda: sorted(openrl.seats().values()) == [["first"], ["second"]],
        "the gated worker keeps a seat on the claim of another",
        timeout_seconds=SEAT_LESS_SECONDS,
    )

    set_quota(2)
    openrl.await_phases(["first", "second"], "Running")


def test_a_seat_is_handed_over_at_once_although_a_finalizer_keeps_the_old_pod(
    cluster: Cluster, openrl: WorkloadClient, start: Start, set_quota: SetQuota
) -> None:
    one_gpu_nodes(cluster, 1)
    set_quota(10)
    start(LIMIT_OF_TWO)
    openrl.submit(*(queued(workload(name)) for name in ("first", "second")))
    openrl.await_phases(["first", "second"], "Running")
    openrl.submit(queued(workload("waits-1")))
    openrl.await_pending("waits-1", "WaitingForCapacity")
    openrl.submit(queued(workload("waits-2")))
    openrl.await_pending("waits-2", "WaitingForCapacity")
    (shared,) = {openrl.status(name)["claimName"] for name in ("first", "second")}
    mark = cluster.audit.mark()

    openrl.delete("first")
    openrl.await_that(lambda: "first" not in openrl.seats().get(shared, []), "the seat is not freed")
    freed = time.monotonic()
    openrl.await_phase("waits-1", "Running")

    assert time.monotonic() - freed < HAND_OFF_SECONDS
    assert openrl.seats()[shared] == ["second", "waits-1"]
    created = cluster.audit.count(since=mark, user=CONTROLLER_USER, verb="create", resource="pods")
    assert created <= PODS_MAX


def test_nothing_is_left_of_workers_that_a_queue_managed(
    cluster: Cluster, openrl: WorkloadClient, start: Start, set_quota: SetQuota
) -> None:
    one_gpu_nodes(cluster, 1)
    set_quota(2)
    start(LIMIT_OF_TWO)
    names = [f"trainer-{n}" for n in range(4)]
    openrl.submit(*(queued(workload(name)) for name in names))
    openrl.await_that(lambda: len(openrl.in_phase("Running")) == 2, "the quota is not used")

    for name in names:
        openrl.delete(name)

    openrl.await_gone()
