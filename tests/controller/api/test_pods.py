"""Tests of the two forms of Pods: worker Pods in full, foreign Pods in a compact form."""

from __future__ import annotations

import gc
import json
import tracemalloc
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.api.core import Pod
from controller.api.pods import PODS, AnyPod, ForeignPod, effective_request_of, full_pod
from controller.cluster.caches import used_claims
from informers.api import ObjectKey
from informers.cache.store import Store
from informers.client.decoding import struct_decoder
from placement.types import GIB, Amounts
from tests.controller.build import Parts, pod, workload
from tests.placement.builders import free_on

_versions = count(1)
_decode_full = struct_decoder(Pod)

Document = dict[str, Any]


def document(name: str = "web-0", *containers: Document, **more: Any) -> Document:
    resources = {"requests": {"memory": "2Gi", "cpu": "500m"}}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": str(next(_versions)),
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
            ],
            "annotations": {"note": "x" * 3000},
            **more.pop("metadata", {}),
        },
        "spec": {
            "nodeName": "node",
            "containers": list(containers) or [{"name": "c", "image": "i", "resources": resources}],
            **more.pop("spec", {}),
        },
        "status": {"phase": "Running", "podIP": "10.0.0.7", **more.pop("status", {})},
    }


def decoded(*args: Any, **more: Any) -> AnyPod:
    return PODS.decode(json.dumps(document(*args, **more)).encode())


def foreign(*args: Any, **more: Any) -> ForeignPod:
    found = decoded(*args, **more)
    assert isinstance(found, ForeignPod)
    return found


def owner(kind: str = "Workload", group: str = "openrl.io", **more: Any) -> Document:
    return {"apiVersion": f"{group}/v1beta1", "kind": kind, "name": "a", "uid": "uid-a", **more}


POSSIBLE_WORKERS: dict[str, Document] = {
    "a worker's name": {"metadata": {"name": "orw-a"}},
    "a Workload as controller": {"metadata": {"ownerReferences": [owner(controller=True)]}},
    "a Workload as one owner of several": {
        "metadata": {"ownerReferences": [owner("Job", "batch"), owner(uid="another")]}
    },
    "a reference to a claim": {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "claim-a"}]}},
}


@pytest.mark.parametrize("what", POSSIBLE_WORKERS)
def test_a_pod_that_could_be_looked_up_as_a_workers_is_in_full(what: str) -> None:
    found = decoded(**POSSIBLE_WORKERS[what])
    assert isinstance(found, Pod)
    assert found is full_pod(found)
    assert found.spec.containers[0].name == "c"


@pytest.mark.parametrize("other", [owner("Workload", "kueue.x-k8s.io"), owner("ReplicaSet")])
def test_other_owners_do_not_make_a_worker_pod(other: Document) -> None:
    assert full_pod(foreign(metadata={"ownerReferences": [other]})) is None


def test_the_fields_of_a_foreign_pod() -> None:
    found = foreign(metadata={"resourceVersion": "7"})
    assert ObjectKey.of(found) == ("team", "web-0")
    assert (found.metadata.uid, found.metadata.resource_version) == ("uid-web-0", "7")
    assert (found.node_name, found.phase, found.finished) == ("node", "Running", False)
    assert found.requests == Amounts(2 * GIB, 500, 1)
    assert list(used_claims(found)) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_foreign_pod_in_a_final_phase_is_finished(phase: str) -> None:
    assert foreign(status={"phase": phase}).finished


QUANTITIES = st.fixed_dictionaries(
    {},
    optional={
        "memory": st.sampled_from(["0", "1Gi", "1500M", 1024, 2e3]),
        "cpu": st.sampled_from(["100m", "1", 2, 0.5]),
    },
)
REQUIREMENTS = st.fixed_dictionaries({}, optional={"requests": QUANTITIES, "limits": QUANTITIES})
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.just("c"), "resources": REQUIREMENTS}), min_size=1, max_size=3
)
INIT_CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("i"), "resources": REQUIREMENTS}, optional={"restartPolicy": st.just("Always")}
    ),
    max_size=3,
)


@given(CONTAINERS, INIT_CONTAINERS, QUANTITIES, REQUIREMENTS)
def test_both_forms_of_a_pod_have_the_same_effective_request(
    containers: list[Document], init_containers: list[Document], overhead: Document, resources: Document
) -> None:
    spec = {"initContainers": init_containers, "overhead": overhead, "resources": resources}
    text = json.dumps(document("web", *containers, spec=spec)).encode()
    in_full = effective_request_of(_decode_full(text))
    assert effective_request_of(PODS.decode(text)) == in_full


def test_foreign_pods_share_repeated_values() -> None:
    one, other = foreign("web-0"), foreign("web-1")
    assert one.requests is other.requests
    assert one.node_name is other.node_name
    assert one.namespace is other.namespace
    assert one.phase is other.phase


def test_equal_requests_in_different_notations_are_shared() -> None:
    in_millis = foreign("a", {"name": "c", "resources": {"requests": {"cpu": "1000m"}}})
    in_cores = foreign("b", {"name": "d", "resources": {"limits": {"cpu": "1"}}})
    assert in_millis.requests is in_cores.requests


@pytest.mark.parametrize("quantity", ["much", "-1Gi", True])
def test_an_invalid_request_makes_the_pod_unreadable(quantity: object) -> None:
    container = {"name": "c", "resources": {"requests": {"memory": quantity}}}
    for name in ("web", "orw-a"):
        with pytest.raises(ValueError, match=r"memory|quantity|Expected"):
            decoded(name, container)


def test_a_foreign_pod_uses_at_most_half_a_kilobyte() -> None:
    uid = "0b2f3f3e-1111-4222-8333-4444555"
    texts = [
        json.dumps(
            document(
                f"web-7d4b9c6f5d-{number}",
                metadata={"uid": f"{uid}{number}"},
                spec={"nodeName": f"node-{number % 50}"},
            )
        ).encode()
        for number in range(10_000, 14_000)
    ]
    store: Store[AnyPod] = Store({"claim": used_claims})
    store.apply_write(PODS.decode(texts[0]))
    gc.collect()
    tracemalloc.start()
    for text in texts:
        store.apply_write(PODS.decode(text))
    gc.collect()
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes / len(texts) <= 512


def test_the_fleet_counts_foreign_pods_until_they_end() -> None:
    parts = Parts()
    parts.host()
    freed: list[str] = []
    parts.fleet_updater.on_capacity_freed = lambda: freed.append("capacity")
    before = free_on(parts.fleet, "node")
    parts.caches.pods.store.apply_write(foreign("web-0"))
    during = free_on(parts.fleet, "node")
    assert before is not None
    assert during is not None
    used = (before.memory_bytes - during.memory_bytes, before.cpu_millis - during.cpu_millis)
    assert (*used, before.pods - during.pods) == (2 * GIB, 500, 1)
    assert freed == []
    parts.caches.pods.store.apply_write(foreign("web-0", status={"phase": "Succeeded"}))
    assert free_on(parts.fleet, "node") == before
    assert freed == ["capacity"]


def test_a_foreign_pod_counts_from_its_binding() -> None:
    parts = Parts()
    parts.host()
    empty = free_on(parts.fleet, "node")
    parts.caches.pods.store.apply_write(foreign("web-0", spec={"nodeName": ""}))
    assert free_on(parts.fleet, "node") == empty
    parts.caches.pods.store.apply_write(foreign("web-0"))
    assert free_on(parts.fleet, "node") != empty


def test_a_pod_adopted_by_a_workload_becomes_a_worker_pod() -> None:
    parts = Parts()
    parts.put(workload("a"))
    parts.caches.pods.store.apply_write(foreign("orphan", metadata={"namespace": "openrl-system"}))
    assert parts.caches.pods_of("uid-a") == ()
    adopted = {"namespace": "openrl-system", "ownerReferences": [owner(controller=True)]}
    parts.caches.pods.store.apply_write(decoded("orphan", metadata=adopted))
    assert [found.metadata.name for found in parts.caches.pods_of("uid-a")] == ["orphan"]


def test_worker_pods_are_indexed_by_workload_and_claim() -> None:
    parts = Parts()
    worker_pod = pod("a", claim_name="claim-a")
    parts.put(workload("a"), worker_pod)
    parts.caches.pods.store.apply_write(foreign("web-0"))
    assert parts.caches.pods_of("uid-a") == (worker_pod,)
    assert parts.caches.pods_on(ObjectKey("openrl-system", "claim-a")) == (worker_pod,)
