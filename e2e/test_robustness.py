"""Unusual but legal states on a real control plane: the controller backs off and keeps running.

A real API server and a real kube-scheduler confirm what the simulated cluster assumes: a sidecar with one of
our variables, a foreign ledger, a gated Pod.
"""

from __future__ import annotations

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_USER, WORKER_NAMESPACE, Cluster, Object
from e2e.controlplane.waiting import pause_briefly, wait_until
from e2e.harness.workloads import LEDGERS, WORKLOADS, WorkloadClient, one_gpu_nodes, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

WINDOW_SECONDS = 5


def test_a_sidecar_with_our_variable_causes_no_second_pod(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    trainer = workload("trainer")
    variable = {"name": "OPEN_RL_ASSIGNMENT_ID", "value": "of the sidecar"}
    sidecar = {"name": "sidecar", "image": "sidecar:1", "env": [variable]}
    trainer["spec"]["template"]["spec"]["containers"].insert(0, sidecar)
    mark = cluster.audit.mark()
    start({"--retry-interval": "1s"})

    openrl.submit(trainer)
    openrl.await_phase("trainer", "Running")
    pause_briefly(WINDOW_SECONDS)

    assert openrl.status("trainer")["phase"] == "Running"
    assert cluster.audit.count(since=mark, user=CONTROLLER_USER, verb="create", resource="pods") == 1
    assert cluster.audit.count(since=mark, user=CONTROLLER_USER, verb="delete", resource="pods") == 0


def test_a_seat_on_a_foreign_ledger_does_not_block_running_or_deletion(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    trainer = cluster.api.create(WORKLOADS, workload("trainer"))
    seat = {
        "workload": "trainer",
        "workloadUID": trainer["metadata"]["uid"],
        "assignmentID": "manual",
        "ownerID": "trainer",
        "exclusive": False,
        "hostRequest": "1Gi",
    }
    foreign: Object = {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "ClaimLedger",
        "metadata": {"name": "foreign", "namespace": WORKER_NAMESPACE},
        "spec": {"claimName": "foreign", "seats": [seat]},
    }
    cluster.api.create(LEDGERS, foreign)
    try:
        controller = start({"--retry-interval": "1s"})
        openrl.await_phase("trainer", "Running")
        openrl.delete("trainer")
        wait_until(
            lambda: cluster.api.find(f"{WORKLOADS}/trainer") is None, "it is not deleted", timeout_seconds=20
        )
        assert openrl.seats() == {"foreign": ["trainer"]}
        assert controller.stop() == 0
    finally:
        cluster.api.delete(f"{LEDGERS}/foreign")


def test_a_worker_with_a_gated_pod_times_out(cluster: Cluster, openrl: WorkloadClient, start: Start) -> None:
    one_gpu_nodes(cluster, 1)
    trainer = workload("trainer")
    trainer["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
    start({"--placement-timeout": "3s"})

    openrl.submit(trainer)
    status = openrl.await_phase("trainer", "Failed")

    assert status["reason"].startswith("PlacementTimeout: waited 3s; last: ")
    # The status is written first, then seat and claim are released.
    wait_until(
        lambda: not (openrl.pods() or openrl.claims() or openrl.ledgers()),
        "seats or claims are left",
        timeout_seconds=10,
    )
