"""Pods without any result of a scheduler: a gate of another queue, and a scheduler that nobody runs."""

from __future__ import annotations

import pytest

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_USER, Cluster, Object
from e2e.harness.workloads import PODS, WorkloadClient, one_gpu_nodes, workload
from e2e.world.admission import changed_pods

pytest_plugins = ("e2e.controlplane.fixtures",)

GATE = "kueue.x-k8s.io/admission"
GATED = (
    'object.spec.schedulerName == "nobody" ? Object{} : Object{spec: Object.spec{schedulingGates: '
    f'[Object.spec.schedulingGates{{name: "{GATE}"}}]}}}}'
)
NO_SCHEDULER = "WaitingForScheduler: no scheduler has looked at Pod orw-silent (schedulerName nobody)"
SHORT_INTERVAL = {"--retry-interval": "5s"}
WORDS_SECONDS = 60
SEAT_LESS_SECONDS = 180
PODS_MAX = 2
"""Pods of a worker that no scheduler judges: the one on the shared claim, and the one on its own."""


def of_absent_scheduler(worker: Object) -> Object:
    """Give the Pod of a worker to a scheduler that nobody runs."""
    worker["spec"]["template"]["spec"]["schedulerName"] = "nobody"
    return worker


def await_reason(openrl: WorkloadClient, name: str, reason: str) -> None:
    """Wait until a worker has exactly this reason."""
    openrl.await_that(
        lambda: openrl.status(name).get("reason") == reason,
        f"{name} has no reason: {reason}",
        timeout_seconds=WORDS_SECONDS,
    )


@pytest.mark.timeout(300)
def test_silent_workers_report_it_keep_no_seat_and_create_no_further_pods(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 2)
    start(SHORT_INTERVAL)
    openrl.submit(workload("owner"))
    shared = openrl.await_phase("owner", "Running")["claimName"]
    mark = cluster.audit.mark()

    with changed_pods(cluster.api, GATED):
        openrl.submit(workload("gated"), of_absent_scheduler(workload("silent")))
        openrl.await_that(lambda: len(openrl.seats()[shared]) == 3, "they do not share the claim first")
        for name, words in {"gated": f"WaitingForGate: {GATE}", "silent": NO_SCHEDULER}.items():
            await_reason(openrl, name, words)
        openrl.await_that(
            lambda: sorted(openrl.seats().values()) == [["gated"], ["owner"], ["silent"]],
            "a silent worker keeps a seat on the claim of another",
            timeout_seconds=SEAT_LESS_SECONDS,
        )
        openrl.await_that(lambda: len(openrl.pods()) == 3, "a silent worker has no Pod on its own claim")

    cluster.api.patch(f"{PODS}/orw-gated", {"spec": {"schedulingGates": None}})
    openrl.await_phase("gated", "Running")
    assert openrl.status("silent")["phase"] == "Pending"
    created = cluster.audit.count(since=mark, user=CONTROLLER_USER, verb="create", resource="pods")
    assert created <= 2 * PODS_MAX
