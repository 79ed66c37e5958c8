"""Malformed requests never cause an internal error, and never affect other clients."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from simulation.cluster.workloads import workload
from simulation.embedded.cluster import EmbeddedCluster
from tests.embedded.raw_client import (
    LEDGERS_PATH,
    MERGE,
    NAMESPACE,
    PODS_PATH,
    STRATEGIC,
    TABLE,
    WORKLOADS_PATH,
    RawClient,
)

pytestmark = pytest.mark.anyio

REQUESTS = 300
CLAIM_REQUEST = {
    "name": "gpu",
    "firstAvailable": [
        {
            "name": "large",
            "deviceClassName": "gpu.nvidia.com",
            "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}],
        }
    ],
}
DEVICE = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "gpu-node-0", "device": "gpu-0"}
NODE_TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]}}

OBJECTS: dict[str, dict[str, Any]] = {
    PODS_PATH: {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/hold"]},
        "spec": {
            "containers": [{"name": "a", "image": "b", "resources": {"requests": {"cpu": "1"}}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "object-0"}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "affinity": {"nodeAffinity": REQUIRED},
        },
        "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]},
    },
    WORKLOADS_PATH: {**workload(""), "metadata": {"annotations": {"a": "b"}}, "status": {"phase": "Pending"}},
    LEDGERS_PATH: {"metadata": {}, "spec": {"claimName": "object-0", "seats": [{"workload": "a"}]}},
    f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims": {
        "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]},
        "spec": {"devices": {"requests": [CLAIM_REQUEST]}},
        "status": {
            "allocation": {"devices": {"results": [DEVICE]}},
            "reservedFor": [{"resource": "pods", "name": "object-0", "uid": "a"}],
        },
    },
    "/apis/resource.k8s.io/v1/resourceslices": {
        "metadata": {},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "object-0",
            "pool": {"name": "object-0", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}}],
        },
    },
    "/api/v1/nodes": {
        "metadata": {},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events": {
        "metadata": {},
        "regarding": {"kind": "Pod", "name": "object-0"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "series": {"count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z"},
    },
}
JUNK: list[Any] = [None, -1, True, "", "x", [], {}, [1], {"a": 1}, [{}], [None], 1.5, [[]]]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def corrupted(document: dict[str, Any], rng: Random) -> dict[str, Any]:
    """Return the document with one part removed or replaced by a value of another type."""
    document = copy.deepcopy(document)
    *parents, last = rng.choice([path for path in paths(document) if path])
    parent: Any = document
    for key in parents:
        parent = parent[key]
    if rng.random() < 0.2:
        del parent[last]
    else:
        parent[last] = copy.deepcopy(rng.choice(JUNK))
    return document


async def send_junk(raw: RawClient, rng: Random) -> int:
    path, document = rng.choice(list(OBJECTS.items()))
    name = f"object-{rng.randrange(3)}"
    body = corrupted(document, rng)
    if isinstance(body.get("metadata"), dict):
        body["metadata"]["name"] = name
    status = {"status": body.get("status")}
    options = {rng.choice(["preconditions", "gracePeriodSeconds", "dryRun"]): rng.choice(JUNK)}
    method, where, sent, content = rng.choice(
        [
            ("POST", path, body, "application/json"),
            ("POST", path, body, "application/json"),
            ("PUT", f"{path}/{name}", body, "application/json"),
            ("PATCH", f"{path}/{name}", body, MERGE),
            ("PATCH", f"{path}/{name}", body, STRATEGIC),
            ("PATCH", f"{path}/{name}/status", status, MERGE),
            ("DELETE", f"{path}/{name}", options, "application/json"),
            ("GET", path, None, "application/json"),
        ]
    )
    answer = await raw(method, where, sent, content=content, accept=TABLE)
    assert answer.status < 500, (method, where, sent, answer.body)
    return answer.status


@pytest.mark.parametrize("seed", range(3))
async def test_malformed_objects_are_refused_and_the_cluster_keeps_running(
    cluster: EmbeddedCluster, raw: RawClient, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    cluster.fleet.add_nodes(1)
    rng = Random(seed)

    statuses = {await send_junk(raw, rng) for _ in range(REQUESTS)}
    containers = [{"name": "main", "image": "main:1"}]
    await raw("POST", PODS_PATH, {"metadata": {"name": "sound"}, "spec": {"containers": containers}})
    query = {"watch": "true", "fieldSelector": "metadata.name=sound,status.phase=Running"}
    async with raw.session.get(PODS_PATH, params=query) as running:
        assert b'"sound"' in await running.content.readline()

    assert {200, 201, 400, 404, 422} <= statuses
    assert caplog.text == ""
