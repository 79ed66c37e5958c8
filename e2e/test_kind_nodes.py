"""Real nodes: containers get the devices that the placement promised, and a drained node gets nobody."""

from __future__ import annotations

from e2e.conftest import Start
from e2e.controlplane import WORKER_NAMESPACE, Cluster, Fleet, NodeShape
from e2e.kind.cluster import KindCluster
from e2e.kind.containers import process_environment
from e2e.openrl import PODS, OpenRL, one_gpu_nodes, workload
from e2e.podwatch import witnessed_pods

pytest_plugins = ("e2e.controlplane.fixtures",)

LIMIT_OF_TWO = {"--max-seats-per-claim": "2"}
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=50s")


def test_workers_of_one_claim_are_given_the_same_device_and_a_pair_two(
    cluster: Cluster, openrl: OpenRL, start: Start
) -> None:
    assert isinstance(cluster, KindCluster)
    one_gpu_nodes(cluster, 1)
    cluster.furnish(Fleet(nodes=1, shape=NodeShape(gpus=2, gpu_memory="40Gi")))
    start({})
    openrl.submit(workload("first", memory="60Gi"), workload("second", memory="60Gi"))
    openrl.submit(workload("pair", memory="40Gi", devices=2))
    openrl.await_phases(["first", "second", "pair"], "Running")

    seen = {
        name: process_environment(cluster, cluster.api.get(f"{PODS}/orw-{name}"))
        for name in ("first", "second", "pair")
    }

    assert {name: env["GPU_DEVICES"] for name, env in seen.items()} == {
        "first": "gpu-0",
        "second": "gpu-0",
        "pair": "gpu-0,gpu-1",
    }
    assert seen["first"]["OPEN_RL_TIME_SLICE_GROUP"] == seen["second"]["OPEN_RL_TIME_SLICE_GROUP"]
    assert seen["first"]["OPEN_RL_ASSIGNMENT_ID"] != seen["second"]["OPEN_RL_ASSIGNMENT_ID"]


def test_workers_of_a_drained_node_move_or_wait_with_the_reason_and_uncordoning_wakes_them(
    cluster: Cluster, openrl: OpenRL, start: Start
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
            "two do not run while one waits",
        )
        (waiter,) = openrl.in_phase("Pending")
        reason = openrl.await_pending(waiter, "WaitingForCapacity")["reason"]
        moved = [pod for pod in pods.pods if not pod.gone and pod.node]

    assert before == {"orw-first", "orw-second"}
    assert {pod.node for pod in moved} == {other}, "nobody was packed onto the drained node"
    assert "cordoned" in reason
    assert "shared claims hold at most 2 workers" in reason

    cluster.kubectl("uncordon", drained)
    assert openrl.await_phase(waiter, "Running")["nodeName"] == drained
