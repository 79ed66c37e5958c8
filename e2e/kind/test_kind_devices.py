"""Real kubelets and a real driver: containers get the devices of their claim."""

from __future__ import annotations

from e2e.conftest import Start
from e2e.controlplane import Cluster, Fleet, NodeShape
from e2e.harness.workloads import PODS, WorkloadClient, one_gpu_nodes, workload
from e2e.kind.cluster import KindCluster
from e2e.kind.containers import process_environment

pytest_plugins = ("e2e.controlplane.fixtures",)


def test_workers_of_one_claim_get_the_same_device_and_a_pair_gets_two(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    assert isinstance(cluster, KindCluster)
    one_gpu_nodes(cluster, 1)
    cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=2, gpu_memory="40Gi")))
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
