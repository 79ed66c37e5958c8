"""Containers on a node, read from its container runtime, independently of kubelet and API server."""

from __future__ import annotations

import json
from typing import Any

from e2e.controlplane import Object
from e2e.kind.cluster import KindCluster


def container_id(cluster: KindCluster, pod: Object) -> str:
    """Return the runtime's ID of the only running container of a Pod."""
    label = f"io.kubernetes.pod.uid={pod['metadata']['uid']}"
    command = ("crictl", "ps", "--quiet", "--state", "Running", "--label", label)
    (found,) = cluster.on_node(pod["spec"]["nodeName"], *command).split()
    return found


def running_in_namespace(cluster: KindCluster, node: str, namespace: str) -> list[str]:
    """Return the IDs of the running containers of a namespace on a node."""
    label = f"io.kubernetes.pod.namespace={namespace}"
    return cluster.on_node(node, "crictl", "ps", "--quiet", "--label", label).split()


def process_environment(cluster: KindCluster, pod: Object) -> dict[str, str]:
    """Return the environment of the container's process, including variables from the device driver."""
    printed = cluster.on_node(pod["spec"]["nodeName"], "crictl", "inspect", container_id(cluster, pod))
    inspected: dict[str, Any] = json.loads(printed)
    pairs = (entry.partition("=") for entry in inspected["info"]["runtimeSpec"]["process"]["env"])
    return {name: value for name, _, value in pairs}


def crash(cluster: KindCluster, pod: Object) -> None:
    """Kill the container's process. The kubelet restarts it in the same Pod."""
    node = pod["spec"]["nodeName"]
    cluster.on_node(node, "crictl", "stop", "--timeout", "0", container_id(cluster, pod))
