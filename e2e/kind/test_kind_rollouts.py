"""Rollouts under load: no seat is lost, no revision exceeds the limit, no worker is disturbed.

Thirty workers arrive one by one and book all seats, while the installed controller is replaced,
killed or stopped. Independent watches observe every version of every ledger and of every worker's Pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_NAMESPACE, WORKER_NAMESPACE, Cluster, Fleet, NodeShape, Object
from e2e.controlplane.waiting import pause_briefly, wait_until
from e2e.harness.in_pod import LEASE
from e2e.harness.invariants import await_settled
from e2e.harness.ledger_watch import witnessed_ledgers
from e2e.harness.pod_watch import witnessed_pods
from e2e.harness.workloads import WorkloadClient, workload
from e2e.kind.cluster import KindCluster
from e2e.kind.containers import crash
from e2e.kind.deployment import CONTROLLER_PODS, RunningDeployment

pytest_plugins = ("e2e.controlplane.fixtures",)

LIMIT = 2
FLAGS = {"--max-seats-per-claim": str(LIMIT)}
WORKERS, BEFORE = 30, 6
NODES, GPUS = 3, 5
SECONDS_BETWEEN_WORKERS = 0.4
GRACE_SECONDS = 30  # of the Deployment
LEASE_SECONDS = 15

pytestmark = pytest.mark.timeout(400)


def small_worker(number: int) -> Object:
    """Return a worker so small that ten fit on each node."""
    made = workload(f"worker-{number:02}")
    requests = {"memory": "64Mi", "cpu": "20m"}
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": requests}
    return made


def installed(start: Start, cluster: Cluster) -> RunningDeployment:
    cluster.create_nodes(Fleet(nodes=NODES, shape=NodeShape(gpus=GPUS)))
    running = start(FLAGS)
    assert isinstance(running, RunningDeployment), "this needs E2E_PROVIDER=kind"
    return running


@contextmanager
def storm(cluster: Cluster, openrl: WorkloadClient) -> Iterator[Callable[[], None]]:
    """Create the first workers, yield a function that creates the others, and check the result."""
    assert WORKERS == NODES * GPUS * LIMIT, "all seats are needed"
    with witnessed_ledgers(cluster) as ledgers, witnessed_pods(cluster, WORKER_NAMESPACE) as workers:
        for number in range(BEFORE):
            openrl.submit(small_worker(number))
        openrl.await_that(lambda: openrl.in_phase("Running"), "no worker runs")

        def create_remaining() -> None:
            for number in range(BEFORE, WORKERS):
                openrl.submit(small_worker(number))
                pause_briefly(SECONDS_BETWEEN_WORKERS)

        yield create_remaining
        await_settled(openrl, limit=LIMIT, running=WORKERS, waiting=0)
    assert ledgers.most_seats == LIMIT
    seats = {
        ledger["metadata"]["name"]: [seat["workload"] for seat in ledger["spec"]["seats"]]
        for ledger in openrl.ledgers()
    }
    assert ledgers.lost_seats(seats) == []
    assert workers.disturbed() == []


def test_a_rolling_update_in_a_storm_loses_no_seat_and_disturbs_no_worker(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    running = installed(start, cluster)
    before = {pod.name for pod in running.pods.pods}

    with storm(cluster, openrl) as create_remaining:
        cluster.kubectl("rollout", "restart", "deployment/open-rl-scheduler", "-n", CONTROLLER_NAMESPACE)
        create_remaining()
        running.await_rollout()

    replaced = [pod for pod in running.pods.pods if pod.name in before]
    assert [pod.exit_code for pod in replaced] == [0, 0], "both were replaced, and exited with status 0"
    assert running.await_leader() not in before


def test_killing_the_leaders_process_in_a_storm_loses_no_seat(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    assert isinstance(cluster, KindCluster)
    running = installed(start, cluster)

    with storm(cluster, openrl) as create_remaining:
        leader = running.await_leader()
        crash(cluster, cluster.api.get(f"{CONTROLLER_PODS}/{leader}"))
        create_remaining()

    assert running.pods.named(leader).restarts == 1


def test_force_deleting_the_leaders_pod_in_a_storm_loses_no_seat(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    running = installed(start, cluster)

    with storm(cluster, openrl) as create_remaining:
        leader = running.await_leader()
        cluster.api.delete(f"{CONTROLLER_PODS}/{leader}", grace_seconds=0)
        create_remaining()

    assert running.await_leader() != leader


def test_a_leader_stopped_in_a_storm_exits_with_zero_and_its_standby_takes_over_at_once(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    running = installed(start, cluster)

    with storm(cluster, openrl) as create_remaining:
        leader = running.await_leader()
        cluster.api.delete(f"{CONTROLLER_PODS}/{leader}")
        create_remaining()
        wait_until(
            lambda: running.pods.named(leader).gone, "the leader is left", timeout_seconds=GRACE_SECONDS
        )

    stopped = running.pods.named(leader)
    assert stopped.exit_code == 0
    assert stopped.deletion_requested is not None
    assert stopped.ended is not None
    assert (stopped.ended - stopped.deletion_requested).total_seconds() < GRACE_SECONDS
    lease = cluster.api.get(LEASE)["spec"]
    acquired = datetime.fromisoformat(lease["acquireTime"])
    assert running.leader != leader
    assert (acquired - stopped.ended).total_seconds() < LEASE_SECONDS, "the lease was released"
