"""The control plane itself, on which all other end-to-end tests rely."""

import pytest

from e2e.controlplane import CONTROLLER_USER, Api, ApiRefused, Cluster, Fleet, NodeShape, Object, wait_until
from e2e.controlplane.errors import NotReady
from e2e.controlplane.fleet import (
    NODES,
    RESOURCE_SLICES,
    cordon,
    remove_node,
    set_devices,
    set_labels,
    set_ready,
    slice_name,
    taint,
    untaint,
)

pytest_plugins = ("e2e.controlplane.fixtures",)

NAMESPACE = "openrl-system"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"

TIMEOUT_SECONDS = 10


def create_claim(api: Api, name: str) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    api.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})


def create_pod(api: Api, name: str) -> None:
    container = {"name": "worker", "image": "worker", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}], "containers": [container]}
    api.create(PODS, {"metadata": {"name": name}, "spec": spec})


def await_phase(api: Api, name: str, phase: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> Object:
    def reached() -> Object | None:
        pod = api.get(f"{PODS}/{name}")
        return pod if pod["status"].get("phase") == phase else None

    return wait_until(reached, f"Pod {name} is not {phase}", timeout_seconds=timeout_seconds)


def await_unschedulable(api: Api, name: str) -> Object:
    def refused() -> Object | None:
        for condition in api.get(f"{PODS}/{name}")["status"].get("conditions", []):
            if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
                return dict(condition)
        return None

    return wait_until(refused, f"Pod {name} is not unschedulable", timeout_seconds=TIMEOUT_SECONDS)


def await_gone(api: Api, path: str) -> None:
    wait_until(lambda: api.find(path) is None, f"{path} still exists", timeout_seconds=TIMEOUT_SECONDS)


def test_the_scheduler_allocates_each_gpu_once_and_again_after_it_is_freed(cluster: Cluster) -> None:
    api = cluster.api
    cluster.create_nodes(Fleet(nodes=2))
    for name in ("first", "second", "third"):
        create_claim(api, name)
        create_pod(api, name)

    running = {await_phase(api, name, "Running")["spec"]["nodeName"] for name in ("first", "second")}
    condition = await_unschedulable(api, "third")

    assert running == {"gpu-node-0", "gpu-node-1"}
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith("0/2 nodes are available: 2 cannot allocate all claims.")

    api.delete(f"{PODS}/first")
    await_gone(api, f"{PODS}/first")
    await_phase(api, "third", "Running")

    assert "allocation" not in api.get(f"{CLAIMS}/first").get("status", {})
    result = api.get(f"{CLAIMS}/third")["status"]["allocation"]["devices"]["results"][0]
    assert (result["driver"], result["device"]) == ("gpu.nvidia.com", "gpu-0")


def test_the_controllers_user_has_exactly_the_permissions_of_the_manifests(cluster: Cluster) -> None:
    mark = cluster.audit.mark()
    with Api.from_kubeconfig(cluster.controller_kubeconfig) as controller:
        controller.items(NODES)
        controller.items(PODS)
        for attempt in (
            lambda: controller.items("/api/v1/secrets"),
            lambda: controller.get("/api/v1/namespaces/kube-system/configmaps"),
            lambda: controller.create(CLAIMS.replace(NAMESPACE, "default"), {"metadata": {"name": "claim"}}),
            lambda: controller.delete(f"{NODES}/gpu-node-0"),
        ):
            with pytest.raises(ApiRefused) as refusal:
                attempt()
            assert refusal.value.status == 403
            assert CONTROLLER_USER in refusal.value.message

    def refusals() -> bool:
        return len(cluster.audit.refusals(since=mark, user=CONTROLLER_USER)) == 4

    wait_until(refusals, "the refusals are not in the audit log", timeout_seconds=TIMEOUT_SECONDS)
    assert cluster.audit.count(since=mark, user=CONTROLLER_USER, verb="list", resource="nodes") == 1


def test_the_scheduler_sees_changes_of_nodes(cluster: Cluster) -> None:
    api = cluster.api
    (node,) = cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=0)))
    create_claim(api, "worker")
    create_pod(api, "worker")
    await_unschedulable(api, "worker")

    cordon(api, node)
    taint(api, node, "maintenance", "NoSchedule")
    set_devices(api, node, ["40Gi"])
    assert api.get(f"{NODES}/{node}")["spec"]["unschedulable"] is True

    def tainted() -> bool:
        message = await_unschedulable(api, "worker")["message"]
        return "unschedulable" in message or "taint" in message

    wait_until(tainted, "the scheduler's message does not mention the taint", timeout_seconds=TIMEOUT_SECONDS)
    cordon(api, node, on=False)
    untaint(api, node, "maintenance")
    await_phase(api, "worker", "Running")


def test_a_node_is_not_modified_and_its_slice_is_deleted_with_it(cluster: Cluster) -> None:
    api = cluster.api
    (node,) = cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(roles=("trainer",), host_memory="64Gi")))
    set_labels(api, node, {"openrl.io/trainer": None, "openrl.io/sampler": "true"})
    set_ready(api, node, ready=False)

    cluster.restart("kwok")  # once it is ready, it has processed every node

    written = api.get(f"{NODES}/{node}")
    assert written["status"]["allocatable"] == {"cpu": "64", "memory": "64Gi", "pods": "110"}
    assert [item["status"] for item in written["status"]["conditions"]] == ["False"]
    assert written["metadata"]["labels"]["openrl.io/sampler"] == "true"
    assert "openrl.io/trainer" not in written["metadata"]["labels"]

    remove_node(api, node)
    await_gone(api, f"{RESOURCE_SLICES}/{slice_name(node)}")


def test_a_paused_scheduler_binds_nothing_until_it_is_resumed(cluster: Cluster) -> None:
    api = cluster.api
    cluster.create_nodes(Fleet(nodes=1))
    with cluster.paused("kube-scheduler"):
        create_claim(api, "worker")
        create_pod(api, "worker")
        assert repr(cluster.component("kube-scheduler")) == "<Component kube-scheduler paused>"
        with pytest.raises(NotReady):
            await_phase(api, "worker", "Running", timeout_seconds=1)
    await_phase(api, "worker", "Running")


def test_a_killed_api_server_restarts_with_its_data(cluster: Cluster) -> None:
    cluster.create_nodes(Fleet(nodes=1))
    cluster.component("kube-apiserver").kill()
    cluster.restart("kube-apiserver")
    assert [node["metadata"]["name"] for node in cluster.api.items(NODES)] == ["gpu-node-0"]


def test_kubectl_is_authenticated_as_administrator(cluster: Cluster) -> None:
    assert cluster.kubectl("auth", "can-i", "*", "*", "--all-namespaces").strip() == "yes"
