"""Test fleets: the device class, nodes without kubelets, and the GPUs that a DRA driver would publish.

The client needs the right to write Nodes. All created objects carry the label `TEST_LABEL`, so that cleanup
removes only those.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from e2e.controlplane.api import CONFLICT, Api, Object
from e2e.controlplane.errors import ApiRefused, InvalidArgument

DRIVER = "gpu.nvidia.com"
TEST_LABEL = "e2e.harness.workloads.io/furnished"

ENABLED_LABEL = "openrl.io/enabled"
ROLE_LABELS = {"trainer": "openrl.io/trainer", "sampler": "openrl.io/sampler"}

NODES = "/api/v1/nodes"
DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
RESOURCE_SLICES = "/apis/resource.k8s.io/v1/resourceslices"

DEVICES_PER_SLICE_MAX = 128  # the limit of the API


@dataclass(frozen=True, kw_only=True)
class NodeShape:
    """The shape of a node. Empty `roles` accept all roles. Amounts are Kubernetes quantities."""

    gpus: int = 1
    gpu_memory: str = "80Gi"
    host_memory: str = "512Gi"
    cpu: str = "64"
    pods: int = 110
    enabled: bool = True
    roles: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.gpus <= DEVICES_PER_SLICE_MAX:
            raise InvalidArgument(f"{self.gpus} GPUs on a node: 0 to {DEVICES_PER_SLICE_MAX} are allowed")
        for role in self.roles:
            if role not in ROLE_LABELS:
                raise InvalidArgument(f"role {role!r}: known are {', '.join(ROLE_LABELS)}")

    def all_labels(self) -> dict[str, str]:
        enabled = {ENABLED_LABEL: "true"} if self.enabled else {}
        return {
            TEST_LABEL: "true",
            **enabled,
            **{ROLE_LABELS[role]: "true" for role in self.roles},
            **self.labels,
        }


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Equal nodes with the names `<name_prefix>-<n>`."""

    nodes: int
    shape: NodeShape = field(default_factory=NodeShape)
    name_prefix: str = "gpu-node"

    def names(self) -> list[str]:
        return [f"{self.name_prefix}-{number}" for number in range(self.nodes)]


def create_nodes(api: Api, fleet: Fleet) -> list[str]:
    """Create the device class and a fleet, and return the names of the nodes."""
    ensure_device_class(api)
    names = fleet.names()
    for name in names:
        add_node(api, name, fleet.shape)
    return names


def ensure_device_class(api: Api, *, name: str = DRIVER, driver: str = DRIVER) -> None:
    """Create the device class unless it exists."""
    body: Object = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, "labels": {TEST_LABEL: "true"}},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]},
    }
    try:
        api.create(DEVICE_CLASSES, body)
    except ApiRefused as error:
        if error.status != CONFLICT:
            raise


def add_node(api: Api, name: str, shape: NodeShape | None = None) -> None:
    """Create a ready Node and publish its GPUs."""
    shape = shape or NodeShape()
    node = create_node(
        api,
        {"name": name, "labels": {"kubernetes.io/hostname": name, **shape.all_labels()}},
        {},
        {"cpu": shape.cpu, "memory": shape.host_memory, "pods": str(shape.pods)},
    )
    publish_devices(api, node, [shape.gpu_memory] * shape.gpus)


def create_node(api: Api, metadata: Object, spec: Object, resources: Mapping[str, str]) -> Object:
    """Create a ready Node. As with kubelets, the request includes the status."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "CreatedByTest",
        "message": "created without a kubelet",
    }
    status = {"capacity": dict(resources), "allocatable": dict(resources), "conditions": [ready]}
    body: Object = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}
    return api.create(NODES, body)


def publish_devices(
    api: Api,
    node: Object,
    memories: Sequence[str],
    *,
    driver: str = DRIVER,
    generation: int = 1,
    slice_count: int = 1,
) -> None:
    """Write the one ResourceSlice of a node, with a device for each memory size.

    As with real drivers, the Node owns the slice. A `slice_count` other than 1 makes the pool incomplete.
    """
    name = node["metadata"]["name"]
    devices = [
        {"name": f"gpu-{index}", "capacity": {"memory": {"value": memory}}}
        for index, memory in enumerate(memories)
    ]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    body: Object = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": slice_name(name, driver),
            "labels": {TEST_LABEL: "true"},
            "ownerReferences": [owner],
        },
        "spec": {
            "driver": driver,
            "nodeName": name,
            "pool": {"name": name, "generation": generation, "resourceSliceCount": slice_count},
            "devices": devices,
        },
    }
    api.create(RESOURCE_SLICES, body)


def set_devices(
    api: Api, name: str, memories: Sequence[str], *, driver: str = DRIVER, slice_count: int = 1
) -> None:
    """Replace the GPUs of a node, in the next generation of its pool."""
    path = f"{RESOURCE_SLICES}/{slice_name(name, driver)}"
    current = api.get(path)
    generation = int(current["spec"]["pool"]["generation"]) + 1
    current["spec"]["pool"] = {"name": name, "generation": generation, "resourceSliceCount": slice_count}
    current["spec"]["devices"] = [
        {"name": f"gpu-{index}", "capacity": {"memory": {"value": memory}}}
        for index, memory in enumerate(memories)
    ]
    api.replace(path, current)


def slice_name(node: str, driver: str = DRIVER) -> str:
    return f"{node}-{driver}"


def remove_node(api: Api, name: str) -> None:
    """Delete a Node and its ResourceSlice. The Pod garbage collector deletes its Pods."""
    api.delete(f"{NODES}/{name}")


def cordon(api: Api, name: str, *, on: bool = True) -> None:
    api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": on or None}})


def taint(api: Api, name: str, key: str, effect: str, value: str = "") -> None:
    """Add a taint, or change the value of the taint with this key and effect."""
    others = [item for item in _taints(api, name) if (item["key"], item["effect"]) != (key, effect)]
    added = {"key": key, "effect": effect, **({"value": value} if value else {})}
    api.patch(f"{NODES}/{name}", {"spec": {"taints": [*others, added]}})


def untaint(api: Api, name: str, key: str) -> None:
    """Remove all taints with this key."""
    others = [item for item in _taints(api, name) if item["key"] != key]
    api.patch(f"{NODES}/{name}", {"spec": {"taints": others or None}})


def set_labels(api: Api, name: str, labels: Mapping[str, str | None]) -> None:
    """Set labels of a Node. None removes a label."""
    api.patch(f"{NODES}/{name}", {"metadata": {"labels": dict(labels)}})


def set_ready(api: Api, name: str, *, ready: bool) -> None:
    """Set the Ready condition, as a kubelet or the node lifecycle controller would."""
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "reason": "CreatedByTest"}]
    api.patch(f"{NODES}/{name}/status", {"status": {"conditions": conditions}})


def _taints(api: Api, name: str) -> list[Object]:
    return list(api.get(f"{NODES}/{name}")["spec"].get("taints") or [])
