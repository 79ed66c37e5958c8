"""Odd but legal states on a real control plane: the controller neither storms the server nor ends.

What the simulated cluster is told to be like, the real API server, its admission and kube-scheduler are here:
a webhook that fails, a sidecar that uses our variable, a ledger that nobody of ours made, a gated Pod.
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
"""From 4 ms on (5 ms less a fifth), doubled: 11 attempts in five seconds, and a few that events cause."""


@contextmanager
def broken_webhook(api: Api) -> Iterator[None]:
    """While the block runs, a webhook that must be asked about Pods answers nobody."""
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
        wait_until(lambda: refuses_pods(api), "the webhook is not asked", timeout_seconds=10)
        yield
    finally:
        api.delete(f"{WEBHOOKS}/broken")


def refuses_pods(api: Api) -> bool:
    """Whether a Pod would be refused because the webhook fails."""
    container = {"name": "main", "image": "main:1"}
    pod = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}
    try:
        api.request("POST", f"{PODS}?dryRun=All", pod)
    except ApiRefused as refusal:
        return "failed calling webhook" in refusal.message
    return False


def test_a_failing_webhook_is_not_stormed_and_the_worker_runs_once_it_is_gone(
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


def test_a_sidecars_variable_of_our_name_costs_no_second_pod(
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


def test_a_seat_in_an_odd_ledger_keeps_no_worker_from_running_or_going(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    trainer = cluster.api.create(WORKLOADS, workload("trainer"))
    seat = {
        "workload": "trainer",
        "workloadUID": trainer["metadata"]["uid"],
        "assignmentID": "of-a-hand",
        "ownerID": "trainer",
        "exclusive": False,
        "hostRequest": "1Gi",
    }
    odd: Object = {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "ClaimLedger",
        "metadata": {"name": "odd", "namespace": WORKER_NAMESPACE},
        "spec": {"claimName": "odd", "seats": [seat]},
    }
    cluster.api.create(LEDGERS, odd)
    try:
        controller = start({"--retry-interval": "1s"})
        openrl.await_phase("trainer", "Running")
        openrl.delete("trainer")
        wait_until(
            lambda: cluster.api.find(f"{WORKLOADS}/trainer") is None, "it is not gone", timeout_seconds=20
        )
        assert openrl.seats() == {"odd": ["trainer"]}
        assert controller.stop() == 0
    finally:
        cluster.api.delete(f"{LEDGERS}/odd")


def test_a_worker_whose_pod_is_gated_for_ever_times_out(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    trainer = workload("trainer")
    trainer["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
    start({"--placement-timeout": "3s"})

    openrl.submit(trainer)
    status = openrl.await_phase("trainer", "Failed")

    assert status["reason"].startswith("PlacementTimeout: waited 3s; last: ")
    # The status comes first, then what it held.
    wait_until(
        lambda: not (openrl.pods() or openrl.claims() or openrl.ledgers()),
        "something is held still",
        timeout_seconds=10,
    )
