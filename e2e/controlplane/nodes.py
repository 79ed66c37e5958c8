"""Configuration of real nodes by labels that the GPU driver follows.

A fleet uses nodes that are not configured yet. Their host memory and CPU are fixed. `release` resets nodes:
no GPUs, not enabled, schedulable, no taints.
"""

from __future__ import annotations

from collections.abc import Mapping

from e2e.controlplane.api import Api, Object
from e2e.controlplane.errors import Unsupported
from e2e.controlplane.fleet import (
    DRIVER,
    ENABLED_LABEL,
    NODES,
    RESOURCE_SLICES,
    ROLE_LABELS,
    Fleet,
    NodeShape,
)
from e2e.controlplane.waiting import wait_until

COUNT_LABEL = "gpu-driver/count"
MEMORY_LABEL = "gpu-driver/memory"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"

PUBLISH_SECONDS = 30


class RealNodes:
    """The nodes of a cluster whose GPU driver follows labels."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._configured: dict[str, Mapping[str, str]] = {}

    def __repr__(self) -> str:
        return f"<RealNodes configured={sorted(self._configured)}>"

    def configure(self, fleet: Fleet) -> list[str]:
        """Configure the nodes of a fleet, and return their names once their GPUs are published.

        Raises Unsupported if too few nodes are free, or if labels cannot express the shape.
        """
        plain = NodeShape()
        shape = fleet.shape
        if (shape.host_memory, shape.cpu, shape.pods) != (plain.host_memory, plain.cpu, plain.pods):
            raise Unsupported("host memory, CPU and Pod slots of a real node are fixed")
        free = [name for name in self._names() if name not in self._configured]
        if len(free) < fleet.nodes:
            raise Unsupported(f"{fleet.nodes} nodes are needed, {len(free)} are free")
        selected = free[: fleet.nodes]
        labels = {
            COUNT_LABEL: str(shape.gpus),
            MEMORY_LABEL: shape.gpu_memory,
            **({ENABLED_LABEL: "true"} if shape.enabled else {}),
            **{ROLE_LABELS[role]: "true" for role in shape.roles},
            **shape.labels,
        }
        for name in selected:
            self._configured[name] = labels
            self._api.patch(f"{NODES}/{name}", {"metadata": {"labels": labels}})
        self._await_devices(selected, [shape.gpu_memory] * shape.gpus)
        return selected

    def release(self) -> None:
        """Reset the configured nodes, including cordons and taints of tests."""
        for name, labels in self._configured.items():
            changes = {**dict.fromkeys(labels), COUNT_LABEL: "0"}
            body: Object = {
                "metadata": {"labels": changes},
                "spec": {"unschedulable": None, "taints": None},
            }
            self._api.patch(f"{NODES}/{name}", body)
        released, self._configured = list(self._configured), {}
        self._await_devices(released, [])

    def _names(self) -> list[str]:
        """Return all nodes. Those of the control plane are last, since they run the cluster's own Pods."""
        ranked = [
            (CONTROL_PLANE in node["metadata"].get("labels", {}), node["metadata"]["name"])
            for node in self._api.items(NODES)
        ]
        return [name for _, name in sorted(ranked)]

    def _await_devices(self, names: list[str], memories: list[str]) -> None:
        def published() -> bool:
            slices = self._api.items(RESOURCE_SLICES, fieldSelector=f"spec.driver={DRIVER}")
            found: dict[str, list[str]] = {name: [] for name in names}
            for item in slices:
                if item["spec"].get("nodeName") in found:
                    found[item["spec"]["nodeName"]] += [
                        device["capacity"]["memory"]["value"] for device in item["spec"].get("devices", [])
                    ]
            return all(devices == memories for devices in found.values())

        what = f"the driver does not publish {memories or 'nothing'} on {names}"
        wait_until(published, what, timeout_seconds=PUBLISH_SECONDS, interval_seconds=0.2)
