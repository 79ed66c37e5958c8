"""Unusual but legal states on a real control plane: the controller backs off and keeps running.

A real API server with its admission and a real kube-scheduler confirm what the simulated cluster assumes: a
failing webhook, a sidecar with one of our variables, a foreign ledger, a gated Pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_USER, WORKER_NAMESPACE, Api, ApiRefused, Cluster, Object
from e2e.controlplane.waiting import pause_briefly, wait_until
from e2e.harness.faults import controller_with_errors
from e2e.harness.workloads import LEDGERS, PODS, WORKLOADS, WorkloadClient, one_gpu_nodes, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WINDOW_SECONDS = 5
ATTEMPTS_MAX = 14
"""Back-off from 4 ms on, doubled each time: 11 attempts in five seconds, plus a few caused by events."""


@contextmanager
def broken_webhook(api: Api) -> Iterator[None]:
    """While the block runs, every Pod needs the admission of a webhook that does not respond."""
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "broken"},
        "webhooks": [
            {
                "name": "broken.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 1,
                "clientConfig": {"url": "https://127.0.0.1:1/none"},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                        "operations": ["CREATE"],
                    }
                ],
            }
        ],
    }
    api.create(WEBHOOKS, body)
    try:
        wait_until(lambda: refuses_pods(api), "the webhook is not called", timeout_seconds=10)
        yield
    finally:
        api.delete(f"{WEBHOOKS}/broken")


def refuses_pods(api: Api) -> bool:
    """Whether the API server refuses a Pod because the webhook fails."""
    container = {"name": "main", "image": "main:1"}
    pod = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}
    try:
        api.request("POST", f"{PODS}?dryRun=All", pod)
    except ApiRefused as refusal:
        return "failed calling webhook" in refusal.message
    return False


def test_a_failing_webhook_leads_to_back_off_and_the_worker_runs_once_it_is_removed(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path
) -> None:
    one_gpu_nodes(cluster, 1)
    mark = cluster.audit.mark()
    with controller_with_errors(cluster, tmp_path / "controller.log", {}) as controller:
        controller.await_logged("Started reconciling")
        with broken_webhook(cluster.api):
            openrl.submit(workload("trainer"))
            pause_briefly(WINDOW_SECONDS)
            creates = cluster.audit.count(since=mark, user=CONTROLLER_USER, verb="create", resource="pods")
            assert 5 <= creates <= ATTEMPTS_MAX
        openrl.await_phase("trainer", "Running")


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
