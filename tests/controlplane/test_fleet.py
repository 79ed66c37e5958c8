"""Tests of fleets and of the cleanup between tests."""

import pytest

from e2e.controlplane.api import Api
from e2e.controlplane.clearing import clear
from e2e.controlplane.errors import InvalidArgument
from e2e.controlplane.fleet import (
    DEVICE_CLASSES,
    DRIVER,
    NODES,
    RESOURCE_SLICES,
    TEST_LABEL,
    Fleet,
    NodeShape,
    add_node,
    cordon,
    create_nodes,
    set_devices,
    set_labels,
    set_ready,
    slice_name,
    taint,
    untaint,
)
from tests.controlplane.fakes import FakeApiServer

NODE = f"{NODES}/gpu-node-0"
SLICE = f"{RESOURCE_SLICES}/{slice_name('gpu-node-0')}"


def test_a_node_is_ready_and_labeled_and_owns_one_slice(api: Api) -> None:
    shape = NodeShape(gpus=2, gpu_memory="40Gi", host_memory="64Gi", cpu="8", pods=20, roles=("trainer",))
    assert create_nodes(api, Fleet(nodes=1, shape=shape)) == ["gpu-node-0"]

    node, published = api.get(NODE), api.get(SLICE)
    assert node["status"]["allocatable"] == {"cpu": "8", "memory": "64Gi", "pods": "20"}
    assert node["status"]["conditions"][0]["status"] == "True"
    assert node["metadata"]["labels"] == {
        "kubernetes.io/hostname": "gpu-node-0",
        "openrl.io/enabled": "true",
        "openrl.io/trainer": "true",
        TEST_LABEL: "true",
    }
    assert published["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
    assert published["spec"] == {
        "driver": DRIVER,
        "nodeName": "gpu-node-0",
        "pool": {"name": "gpu-node-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{n}", "capacity": {"memory": {"value": "40Gi"}}} for n in range(2)],
    }


def test_a_second_fleet_keeps_the_device_class(api: Api) -> None:
    create_nodes(api, Fleet(nodes=1))
    create_nodes(api, Fleet(nodes=1, name_prefix="more"))
    expression = api.get(f"{DEVICE_CLASSES}/{DRIVER}")["spec"]["selectors"][0]["cel"]["expression"]
    assert expression == "device.driver == 'gpu.nvidia.com'"


def test_replaced_devices_increase_the_pool_generation(api: Api) -> None:
    add_node(api, "gpu-node-0")
    set_devices(api, "gpu-node-0", ["24Gi", "80Gi"], slice_count=2)
    spec = api.get(SLICE)["spec"]
    assert spec["pool"] == {"name": "gpu-node-0", "generation": 2, "resourceSliceCount": 2}
    assert [device["capacity"]["memory"]["value"] for device in spec["devices"]] == ["24Gi", "80Gi"]


def test_taints_are_added_and_removed_by_key(api: Api) -> None:
    add_node(api, "gpu-node-0")
    taint(api, "gpu-node-0", "a", "NoSchedule")
    taint(api, "gpu-node-0", "b", "NoExecute", "x")
    taint(api, "gpu-node-0", "a", "NoSchedule", "y")
    assert api.get(NODE)["spec"]["taints"] == [
        {"key": "b", "effect": "NoExecute", "value": "x"},
        {"key": "a", "effect": "NoSchedule", "value": "y"},
    ]
    untaint(api, "gpu-node-0", "b")
    untaint(api, "gpu-node-0", "a")
    assert "taints" not in api.get(NODE)["spec"]


def test_cordon_labels_and_readiness_can_be_reverted(api: Api) -> None:
    add_node(api, "gpu-node-0")
    cordon(api, "gpu-node-0")
    set_ready(api, "gpu-node-0", ready=False)
    assert api.get(NODE)["spec"] == {"unschedulable": True}
    assert api.get(NODE)["status"]["conditions"][0]["status"] == "False"
    cordon(api, "gpu-node-0", on=False)
    set_labels(api, "gpu-node-0", {"openrl.io/enabled": None})
    assert api.get(NODE)["spec"] == {}
    assert "openrl.io/enabled" not in api.get(NODE)["metadata"]["labels"]


@pytest.mark.parametrize(("gpus", "roles"), [(129, ()), (-1, ()), (1, ("driver",))])
def test_an_invalid_shape_is_refused(gpus: int, roles: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument):
        NodeShape(gpus=gpus, roles=roles)


def test_cleanup_removes_objects_with_finalizers(api: Api, api_server: FakeApiServer) -> None:
    create_nodes(api, Fleet(nodes=2))
    workloads = "/apis/openrl.io/v1alpha1/namespaces/openrl-system/workloads"
    api.create(workloads, {"metadata": {"name": "w", "finalizers": ["openrl.io/placement"]}})
    api.create("/api/v1/namespaces/openrl-system/pods", {"metadata": {"name": "orw-w"}})

    clear(api, "openrl-system")

    assert set(api_server.objects) == {f"{DEVICE_CLASSES}/{DRIVER}"}
    assert api_server.deletions.index(f"{workloads}/w") == 0  # owners first


def test_cleanup_before_the_installation_is_no_error(api: Api, api_server: FakeApiServer) -> None:
    for kind in ("workloads", "claimledgers"):
        api_server.answers[f"/apis/openrl.io/v1alpha1/namespaces/openrl-system/{kind}"] = (404, b"not served")
    clear(api, "openrl-system")
    assert api_server.deletions == []


class Once(dict[str, tuple[int, bytes]]):
    """Answers that are given a single time each."""

    def __getitem__(self, path: str) -> tuple[int, bytes]:
        return self.pop(path)


def test_cleanup_waits_for_a_starting_server(api: Api, api_server: FakeApiServer) -> None:
    workloads = "/apis/openrl.io/v1alpha1/namespaces/openrl-system/workloads"
    api.create(workloads, {"metadata": {"name": "w"}})
    api_server.answers = Once({workloads: (429, b"storage is (re)initializing")})

    clear(api, "openrl-system")

    assert api_server.deletions == [f"{workloads}/w"]
