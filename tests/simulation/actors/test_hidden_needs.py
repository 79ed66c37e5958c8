"""kube-scheduler refuses nodes for requirements that no template shows, with its usual messages."""

from __future__ import annotations

import pytest

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import PODS
from simulation.cluster.simulated_cluster import SimulatedCluster

pytestmark = pytest.mark.anyio

PORT = {"ports": [{"containerPort": 29500, "hostPort": 29500}]}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "worker"}}}
        ]
    }
}


def create(
    cluster: SimulatedCluster, name: str, *, container: Document | None = None, **spec: object
) -> None:
    containers = [{"name": "worker", "image": "worker:1", **(container or {})}]
    metadata = {"name": name, "labels": {"app": "worker"}}
    cluster.server.create(PODS, "default", {"metadata": metadata, "spec": {"containers": containers, **spec}})


def disk(amount: str) -> Document:
    return {"resources": {"requests": {"ephemeral-storage": amount}}}


def scheduled(cluster: SimulatedCluster, name: str) -> str:
    """Return the node of a Pod, or the scheduler's message."""
    pod = cluster.server.document(PODS, name, "default")
    assert pod is not None
    conditions = [each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"]
    return str(pod["spec"].get("nodeName") or conditions[0]["message"])


@pytest.mark.parametrize(
    ("container", "spec", "words"),
    [
        (PORT, {}, "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."),
        (disk("600Gi"), {}, "0/1 nodes are available: 1 Insufficient ephemeral-storage."),
        ({}, {"affinity": APART}, "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."),
    ],
)
async def test_a_need_that_another_pod_has_taken_refuses_the_node_until_that_pod_ends(
    cluster: SimulatedCluster, container: Document, spec: Document, words: str
) -> None:
    cluster.fleet.add_nodes(1)
    create(cluster, "first", container=container, **spec)
    await cluster.settle()
    create(cluster, "second", container=container, **spec)
    await cluster.settle()
    assert scheduled(cluster, "first") == "gpu-node-0"
    assert scheduled(cluster, "second").startswith(words)

    cluster.server.delete(PODS, "first", "default")
    await cluster.settle()
    assert scheduled(cluster, "second") == "gpu-node-0"


async def test_a_disk_that_is_too_small_refuses_for_good(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    create(cluster, "large", container=disk("2Ti"))
    await cluster.settle()

    assert "Insufficient ephemeral-storage" in scheduled(cluster, "large")
    assert "Preemption is not helpful" in scheduled(cluster, "large")
