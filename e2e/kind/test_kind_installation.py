"""The installation: the controller's container is restricted, and everything can be uninstalled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_NAMESPACE, WORKER_NAMESPACE, Cluster, wait_until
from e2e.controlplane.api import Object
from e2e.harness.manifest_objects import refused
from e2e.harness.workloads import WorkloadClient, one_gpu_nodes, workload
from e2e.kind.cluster import KindCluster
from e2e.kind.containers import running_in_namespace
from e2e.kind.deployment import CONTROLLER_PODS, RunningDeployment

pytest_plugins = ("e2e.controlplane.fixtures",)

FORBIDDEN = 403
USER = 65532
GONE_SECONDS = 120

pytestmark = pytest.mark.timeout(400)

LOOK_AROUND = """
import json, os
status = dict(line.rstrip().split(":\\t", 1) for line in open("/proc/1/status") if ":\\t" in line)
print(json.dumps({
    "command": open("/proc/1/cmdline").read().split("\\0"),
    "ids": [os.getuid(), os.getgid()],
    "read only": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
    "capabilities": int(status["CapEff"], 16) | int(status["CapPrm"], 16) | int(status["CapBnd"], 16),
    "no new privileges": status["NoNewPrivs"],
    "seccomp": status["Seccomp"],
}))
"""
SECCOMP_FILTER = "2"


def test_the_process_is_unprivileged_with_a_read_only_root_in_a_restricted_namespace(
    cluster: Cluster, start: Start
) -> None:
    running = start({})
    assert isinstance(running, RunningDeployment), "this needs E2E_PROVIDER=kind"
    pod = running.await_leader()

    answer = cluster.kubectl("exec", "-n", CONTROLLER_NAMESPACE, pod, "--", "python", "-c", LOOK_AROUND)
    seen: dict[str, Any] = json.loads(answer)

    assert any(word.endswith("/open-rl-scheduler") for word in seen.pop("command")), "it is process 1 itself"
    assert seen == {
        "ids": [USER, USER],
        "read only": True,
        "capabilities": 0,
        "no new privileges": "1",
        "seccomp": SECCOMP_FILTER,
    }
    labels = cluster.api.get(f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    container: Object = {"name": "main", "image": "image:1"}
    careless: Object = {"metadata": {"name": "careless"}, "spec": {"containers": [container]}}
    message = refused(
        lambda: cluster.api.request("POST", f"{CONTROLLER_PODS}?dryRun=All", careless), FORBIDDEN
    )
    assert 'violates PodSecurity "restricted' in message


def test_uninstalling_leaves_nothing_and_reinstalling_works(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    """Delete Workloads first, then everything else, as manifests/kustomization.yaml documents."""
    assert isinstance(cluster, KindCluster)
    (node,) = one_gpu_nodes(cluster, 1)
    start({})
    openrl.submit(workload("first"), workload("second"), workload("lora", shared=False))
    openrl.await_phases(["first", "second"], "Running")
    openrl.await_pending("lora", "WaitingForCapacity")

    cluster.kubectl("delete", "workloads", "--all", "-n", WORKER_NAMESPACE, "--wait=false")
    openrl.await_gone()
    cluster.kubectl("delete", "-k", str(cluster.manifests), "--wait=false")
    wait_until(lambda: left(cluster) == [], f"{left(cluster)} stay", timeout_seconds=GONE_SECONDS)
    assert running_in_namespace(cluster, node, WORKER_NAMESPACE) == []
    assert cluster.api.items("/apis/resource.k8s.io/v1/resourceclaims") == []

    cluster.install(cluster.manifests)
    start({})
    openrl.submit(workload("again"))
    openrl.await_phase("again", "Running")


def left(cluster: Cluster) -> list[str]:
    """Return the installed objects that still exist."""
    return cluster.kubectl(
        "get", "-k", str(cluster.manifests), "--ignore-not-found", "--output=name"
    ).splitlines()
