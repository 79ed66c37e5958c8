"""Set-up of a simulated cluster: the DeviceClass, nodes, and the GPUs that a DRA driver would publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from informers.api import ObjectKey
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import DEVICE_CLASSES, DEVICE_TAINT_RULES, NODES, SLICES
from simulation.apiserver.server import ApiServer

DRIVER = "gpu.nvidia.com"
ENABLED_LABEL = "openrl.io/enabled"


@dataclass(frozen=True, kw_only=True)
class NodeShape:
    """One node. `roles` are the accepted roles; none means all. Quantities are Kubernetes quantities."""

    gpus: int = 1
    gpu_memory: str = "80Gi"
    host_memory: str = "512Gi"
    cpu: str = "64"
    disk: str = "1Ti"
    pods: int = 110
    enabled: bool = True
    roles: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def all_labels(self) -> dict[str, str]:
        """Return all labels of the node."""
        enabled = {ENABLED_LABEL: "true"} if self.enabled else {}
        return {**enabled, **{f"openrl.io/{role}": "true" for role in self.roles}, **self.labels}


class NodeSetup:
    """Writer of the nodes and devices of one cluster, in the role of administrators and drivers."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def __repr__(self) -> str:
        return f"<NodeSetup nodes={len(self._server.store.all(NODES))}>"

    def add_nodes(self, count: int, shape: NodeShape | None = None, *, prefix: str = "gpu-node") -> list[str]:
        """Create nodes `<prefix>-<n>` of one shape, and the DeviceClass if absent; return the node names."""
        self.ensure_device_class()
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            self.add_node(name, shape)
        return names

    def ensure_device_class(self, name: str = DRIVER, driver: str = DRIVER) -> None:
        """Create the DeviceClass if it is absent."""
        if self._server.document(DEVICE_CLASSES, name) is None:
            selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
            body = {"metadata": {"name": name}, "spec": {"selectors": [selector]}}
            self._server.create(DEVICE_CLASSES, "", body)

    def remove_device_class(self, name: str = DRIVER) -> None:
        """Delete the DeviceClass."""
        self._server.delete(DEVICE_CLASSES, name)

    def add_node(self, name: str, shape: NodeShape | None = None) -> None:
        """Create a ready Node and publish its GPUs."""
        shape = shape or NodeShape()
        resources = {"cpu": shape.cpu, "memory": shape.host_memory, "pods": str(shape.pods)}
        resources["ephemeral-storage"] = shape.disk
        status = {"capacity": resources, "allocatable": resources, "conditions": [_ready("True")]}
        labels = {"kubernetes.io/hostname": name, **shape.all_labels()}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}
        node = self._server.create(NODES, "", body)
        self.publish_devices(name, node.uid, [shape.gpu_memory] * shape.gpus)

    def publish_devices(
        self, node: str, node_uid: str, memories: Sequence[str], *, driver: str = DRIVER, slice_count: int = 1
    ) -> None:
        """Create the ResourceSlice of a node; a `slice_count` other than 1 leaves its pool incomplete."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
        body = {
            "metadata": {"name": slice_name(node, driver), "ownerReferences": [owner]},
            "spec": {"driver": driver, "nodeName": node, **_pool(node, 1, slice_count, memories)},
        }
        self._server.create(SLICES, "", body)

    def set_devices(
        self, node: str, memories: Sequence[str], *, driver: str = DRIVER, slice_count: int = 1
    ) -> None:
        """Replace the GPUs of a node, in the next generation of its pool."""

        def change(document: Document) -> None:
            generation = document["spec"]["pool"]["generation"] + 1
            document["spec"] |= _pool(node, generation, slice_count, memories)

        self._server.edit(SLICES, ObjectKey("", slice_name(node, driver)), change)

    def taint_devices(
        self, node: str, *taints: Mapping[str, str], devices: Sequence[str] = (), driver: str = DRIVER
    ) -> None:
        """Set the taints of a node's devices, or of those that are named, as its driver does."""

        def change(document: Document) -> None:
            for device in document["spec"].get("devices") or ():
                if not devices or device["name"] in devices:
                    device["taints"] = [dict(taint) for taint in taints]

        self._server.edit(SLICES, ObjectKey("", slice_name(node, driver)), change)

    def add_taint_rule(
        self, name: str, *, pool: str, device: str, taint: Mapping[str, str], driver: str = DRIVER
    ) -> None:
        """Taint one device by a DeviceTaintRule, as an administrator does."""
        selector = {"driver": driver, "pool": pool, "device": device}
        body = {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": dict(taint)}}
        self._server.create(DEVICE_TAINT_RULES, "", body)

    def remove_taint_rule(self, name: str) -> None:
        """Delete a DeviceTaintRule."""
        self._server.delete(DEVICE_TAINT_RULES, name)

    def set_allocatable(self, node: str, **amounts: str) -> None:
        """Set allocatable resources of a node."""
        named = {name.replace("_", "-"): amount for name, amount in amounts.items()}

        def change(document: Document) -> None:
            document["status"]["allocatable"] |= named

        self._server.edit(NODES, ObjectKey("", node), change, subresource="status")

    def remove_node(self, name: str) -> None:
        """Delete a Node and its ResourceSlice; garbage collection deletes its Pods."""
        self._server.delete(NODES, name)

    def cordon(self, name: str, *, on: bool = True) -> None:
        """Cordon a node, or uncordon it."""
        self._server.patch(NODES, name, "", {"spec": {"unschedulable": on or None}})

    def taint(self, name: str, key: str, effect: str, value: str = "") -> None:
        """Add a taint, or change the value of the one with this key and effect."""
        others = [item for item in self._taints(name) if (item["key"], item["effect"]) != (key, effect)]
        added = {"key": key, "effect": effect, **({"value": value} if value else {})}
        self._server.patch(NODES, name, "", {"spec": {"taints": [*others, added]}})

    def untaint(self, name: str, key: str) -> None:
        """Remove every taint with this key."""
        others = [item for item in self._taints(name) if item["key"] != key]
        self._server.patch(NODES, name, "", {"spec": {"taints": others or None}})

    def set_labels(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a Node; `None` removes a label."""
        self._server.patch(NODES, name, "", {"metadata": {"labels": dict(labels)}})

    def set_ready(self, name: str, *, ready: bool) -> None:
        """Set the Ready condition, as a kubelet or the node lifecycle controller would."""
        conditions = [_ready("True" if ready else "False")]
        self._server.patch(NODES, name, "", {"status": {"conditions": conditions}}, subresource="status")

    def _taints(self, name: str) -> list[Document]:
        return list(self._server.get(NODES, name).document["spec"].get("taints") or [])


def slice_name(node: str, driver: str = DRIVER) -> str:
    """Return the name of a node's ResourceSlice."""
    return f"{node}-{driver}"


def _pool(node: str, generation: int, slice_count: int, memories: Sequence[str]) -> Document:
    devices = [
        {"name": f"gpu-{index}", "capacity": {"memory": {"value": memory}}}
        for index, memory in enumerate(memories)
    ]
    pool = {"name": node, "generation": generation, "resourceSliceCount": slice_count}
    return {"pool": pool, "devices": devices}


def _ready(value: str) -> Document:
    return {"type": "Ready", "status": value, "reason": "Furnished", "message": "made without a kubelet"}
