"""Real nodes in the shape that a scenario asks for, by labels that the GPU driver follows.

A fleet's nodes are chosen among those that nothing was asked of yet; how much host memory and CPU they have
cannot be chosen. `release` makes them like the others again: no GPUs, not enabled, schedulable, no taints.
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
    """The nodes of a cluster whose driver follows labels."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._furnished: dict[str, Mapping[str, str]] = {}

    def __repr__(self) -> str:
        return f"<RealNodes furnished={sorted(self._furnished)}>"

    def furnish(self, fleet: Fleet) -> list[str]:
        """Give so many nodes this shape; return their names once their GPUs are published.

        Raises Unsupported where the cluster has too few nodes left, or the shape is not a matter of labels.
        """
        plain = NodeShape()
        shape = fleet.shape
        if (shape.host_memory, shape.cpu, shape.pods) != (plain.host_memory, plain.cpu, plain.pods):
            raise Unsupported("host memory, CPU and Pod slots of a real node cannot be chosen")
        free = [name for name in self._names() if name not in self._furnished]
        if len(free) < fleet.nodes:
            raise Unsupported(f"{fleet.nodes} nodes are needed, {len(free)} are left")
        chosen = free[: fleet.nodes]
        labels = {
            COUNT_LABEL: str(shape.gpus),
            MEMORY_LABEL: shape.gpu_memory,
            **({ENABLED_LABEL: "true"} if shape.enabled else {}),
            **{ROLE_LABELS[role]: "true" for role in shape.roles},
            **shape.labels,
        }
        for name in chosen:
            self._furnished[name] = labels
            self._api.patch(f"{NODES}/{name}", {"metadata": {"labels": labels}})
        self._await_devices(chosen, [shape.gpu_memory] * shape.gpus)
        return chosen

    def release(self) -> None:
        """Take back what was asked of the nodes, and the cordons and taints that tests left."""
        for name, labels in self._furnished.items():
            changes = {**dict.fromkeys(labels), COUNT_LABEL: "0"}
            body: Object = {
                "metadata": {"labels": changes},
                "spec": {"unschedulable": None, "taints": None},
            }
            self._api.patch(f"{NODES}/{name}", body)
        released, self._furnished = list(self._furnished), {}
        self._await_devices(released, [])

    def _names(self) -> list[str]:
        """All nodes, those of the control plane last: a drain there would hit the cluster's own Pods."""
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
