"""`kubectl drain` on every provider: no worker joins a claim on the drained node."""

from __future__ import annotations

from e2e.conftest import Start
from e2e.controlplane import WORKER_NAMESPACE, Cluster
from e2e.harness.pod_watch import witnessed_pods
from e2e.harness.workloads import WorkloadClient, one_gpu_nodes, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

LIMIT_OF_TWO = {"--max-seats-per-claim": "2"}
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=50s")


def test_workers_of_a_drained_node_move_or_wait_and_run_again_after_the_uncordon(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 2)
    start(LIMIT_OF_TWO)
    nodes = {}
    for name in ("first", "second", "third"):
        openrl.submit(workload(name))
        nodes[name] = openrl.await_phase(name, "Running")["nodeName"]
    drained, other = nodes["first"], nodes["third"]
    assert nodes["second"] == drained != other

    with witnessed_pods(cluster, WORKER_NAMESPACE) as pods:
        before = {pod.name for pod in pods.pods if pod.node == drained}
        cluster.kubectl("drain", drained, *DRAIN)
        openrl.await_that(
            lambda: (len(openrl.in_phase("Running")), len(openrl.in_phase("Pending"))) == (2, 1),
            "not two running and one waiting",
        )
        (waiter,) = openrl.in_phase("Pending")
        reason = openrl.await_pending(waiter, "WaitingForCapacity")["reason"]
        moved = [pod for pod in pods.pods if not pod.gone and pod.node]

    assert before == {"orw-first", "orw-second"}
    assert {pod.node for pod in moved} == {other}, "no worker stayed on the drained node"
    assert "cordoned" in reason
    assert "shared claims hold at most 2 workers" in reason

    cluster.kubectl("uncordon", drained)
    assert openrl.await_phase(waiter, "Running")["nodeName"] == drained
