"""Nodes that cannot take a worker: no worker joins a claim there, and a change activates the waiting workers.

Each test fills or cordons one node, checks where a worker is placed instead, and then reverts the change. The
retry interval is an hour.
"""

from __future__ import annotations

import pytest

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_USER, Cluster, Fleet, NodeShape, Object, wait_until
from e2e.controlplane.fleet import cordon, taint, untaint
from e2e.controlplane.waiting import pause_briefly
from e2e.harness.workloads import PODS, WorkloadClient, one_gpu_nodes, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

REST_SECONDS = 60
NODE = "gpu-node-0"


def requesting(name: str, *, memory: str = "1Gi", cpu: str = "100m", **spec: object) -> Object:
    """Return a Workload with the given requests for host resources."""
    made = workload(name, **spec)  # type: ignore[arg-type]
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"] = {"memory": memory, "cpu": cpu}
    return made


def foreign_pod(name: str, node: str, cpu: str) -> Object:
    """Return a foreign Pod that is bound to a node."""
    container = {"name": "main", "image": "image:1", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}


def test_no_worker_joins_a_cordoned_node_and_an_uncordon_activates_the_waiter(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    start({})
    openrl.submit(workload("first"))
    openrl.await_phase("first", "Running")

    cordon(cluster.api, NODE)
    openrl.submit(workload("second"))
    reason = openrl.await_pending("second", "WaitingForCapacity")["reason"]
    assert "cordoned" in reason
    assert sorted(openrl.seats().values()) == [["first"], ["second"]]

    cordon(cluster.api, NODE, on=False)
    openrl.await_phase("second", "Running")
    assert list(openrl.seats().values()) == [["first", "second"]]


def test_no_worker_joins_a_tainted_node_and_removing_the_taint_activates_the_waiter(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    start({})
    openrl.submit(workload("first"))
    openrl.await_phase("first", "Running")

    taint(cluster.api, NODE, "maintenance", "NoSchedule")
    openrl.submit(workload("second"))
    assert "taint" in openrl.await_pending("second", "WaitingForCapacity")["reason"]

    untaint(cluster.api, NODE, "maintenance")
    openrl.await_phase("second", "Running")


def test_no_worker_joins_a_node_whose_cpu_a_foreign_pod_uses_until_it_is_deleted(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=1, cpu="4")))
    start({})
    openrl.submit(requesting("first", cpu="1"))
    openrl.await_phase("first", "Running")
    cluster.api.create(PODS, foreign_pod("foreign", NODE, "2500m"))
    wait_until(
        lambda: cluster.api.get(f"{PODS}/foreign")["status"].get("phase") == "Running",
        "the foreign Pod does not run",
        timeout_seconds=10,
    )

    openrl.submit(requesting("second", cpu="1"))
    assert "CPU" in openrl.await_pending("second", "WaitingForCapacity")["reason"]
    assert sorted(openrl.seats().values()) == [["first"], ["second"]]

    cluster.api.delete(f"{PODS}/foreign")
    openrl.await_phase("second", "Running")
    assert list(openrl.seats().values()) == [["first", "second"]]


def test_host_memory_is_counted_for_seats_without_a_bound_pod(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=1, host_memory="10Gi")))
    start({})
    openrl.submit(requesting("first", memory="4Gi"))
    openrl.await_phase("first", "Running")

    # They do not fit together, however fast they arrive: a seat reserves host memory before its Pod exists.
    openrl.submit(*(requesting(f"late-{number}", memory="4Gi") for number in range(4)))
    wait_until(lambda: len(openrl.in_phase("Running")) == 2, "no worker joins", timeout_seconds=20)
    wait_until(lambda: len(openrl.in_phase("Pending")) == 3, "not three workers waiting", timeout_seconds=20)
    assert sorted(len(seats) for seats in openrl.seats().values()) == [1, 1, 1, 2]
    (waiting, *_) = sorted(openrl.in_phase("Pending"))
    assert "host memory" in openrl.status(waiting)["reason"]

    openrl.delete("first")
    wait_until(
        lambda: "first" not in openrl.statuses() and len(openrl.in_phase("Running")) == 2,
        "no worker gets the freed memory",
        timeout_seconds=20,
    )


def test_a_lowered_limit_evicts_no_worker_and_a_raised_one_activates_waiters(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    generous = start({"--max-seats-per-claim": "3"})
    names = ["first", "second", "third"]
    openrl.submit(*(workload(name) for name in names))
    openrl.await_phases(names, "Running")
    assert generous.stop() == 0
    uids = {pod["metadata"]["uid"] for pod in openrl.pods()}

    strict = start({"--max-seats-per-claim": "2"})
    openrl.submit(workload("fourth"))
    reason = openrl.await_pending("fourth", "WaitingForCapacity")["reason"]
    assert "shared claims hold at most 2 workers" in reason
    openrl.delete("third")
    wait_until(
        lambda: "third" not in openrl.statuses(), "the worker third is not deleted", timeout_seconds=20
    )
    assert openrl.status("fourth")["phase"] == "Pending", "two seats are booked, which is the limit"
    assert {pod["metadata"]["uid"] for pod in openrl.pods()} & uids == uids - {_uid_of_third(openrl, uids)}
    assert strict.stop() == 0

    start({"--max-seats-per-claim": "3"})
    openrl.await_phase("fourth", "Running")


def _uid_of_third(openrl: WorkloadClient, uids: set[str]) -> str:
    (gone,) = uids - {pod["metadata"]["uid"] for pod in openrl.pods()}
    return gone


def await_no_events(cluster: Cluster) -> None:
    """Wait until no Event has been sent for a while. Events have their own, lower rate limit."""
    sent = [-1]

    def at_rest() -> bool:
        sent.append(cluster.audit.count(user=CONTROLLER_USER, resource="events"))
        return sent[-1] == sent[-2]

    wait_until(at_rest, "Events are still being sent", timeout_seconds=30, interval_seconds=3)


@pytest.mark.timeout(150)
def test_nothing_is_written_while_eight_workers_wait_at_the_limit(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 2)
    start({"--max-seats-per-claim": "2", "--retry-interval": "2s"})
    openrl.submit(*(workload(f"worker-{number:02}") for number in range(12)))
    wait_until(
        lambda: len(openrl.in_phase("Running")) == 4 and len(openrl.in_phase("Pending")) == 8,
        "not four running and eight waiting",
        timeout_seconds=30,
    )
    await_no_events(cluster)
    mark = cluster.audit.mark()
    pause_briefly(REST_SECONDS)

    counts = cluster.audit.counts(since=mark, user=CONTROLLER_USER)
    non_watch_requests = {kind: count for kind, count in counts.items() if kind.verb != "watch"}
    assert non_watch_requests == {}
