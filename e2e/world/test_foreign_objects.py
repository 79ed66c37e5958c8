"""Objects of strangers: nested deeply, or with a reference to one of our Workloads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.conftest import Start
from e2e.controlplane import Cluster, Object
from e2e.harness.program import running_controller
from e2e.harness.workloads import WORKLOADS, WorkloadClient, one_gpu_nodes, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

ELSEWHERE = "/api/v1/namespaces/default/pods"
LEVELS = 1500
WORKLOAD_LEVELS = 900
FINALIZER = "example.com/keep"
NESTED = "nested"
MANAGED_FIELDS = {
    "manager": "stranger",
    "operation": "Update",
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": NESTED,
}


def create_nested(cluster: Cluster, collection: str, body: Object, levels: int, folder: Path) -> None:
    """Create an object with `NESTED` replaced by objects nested this many levels deep.

    Python's encoder cannot write such an object. So its text is built here, and kubectl sends it.
    """
    nested = '{"f:a":' * levels + "{}" + "}" * levels
    file = folder / "nested.json"
    file.write_text(json.dumps(body).replace(f'"{NESTED}"', nested))
    cluster.kubectl("create", "--raw", collection, "-f", str(file))


def stranger(metadata: Object) -> Object:
    """Return a Pod that no scheduler places, so that no kubelet removes its finalizers."""
    containers = [{"name": "main", "image": "main:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", **metadata},
        "spec": {"schedulerName": "nobody", "containers": containers},
    }


@contextmanager
def deleted_at_the_end(cluster: Cluster) -> Iterator[None]:
    """Delete the stranger's Pod at the end of the block, with its finalizers."""
    pod = ("pod/stranger", "--namespace=default")
    try:
        yield
    finally:
        cluster.kubectl("patch", *pod, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
        cluster.kubectl("delete", *pod, "--ignore-not-found", "--force", "--grace-period=0")


def test_a_deeply_nested_pod_stops_nobody_before_or_after_a_restart(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path
) -> None:
    one_gpu_nodes(cluster, 2)
    with running_controller(cluster, tmp_path / "first.log"), deleted_at_the_end(cluster):
        deep = stranger({"managedFields": [MANAGED_FIELDS]})
        create_nested(cluster, ELSEWHERE, deep, LEVELS, tmp_path)
        openrl.submit(workload("before", shared=False))
        openrl.await_phase("before", "Running")
        with running_controller(cluster, tmp_path / "second.log"):
            openrl.submit(workload("after", shared=False))
            openrl.await_phase("after", "Running")


def test_a_deeply_nested_workload_gets_a_word_and_stops_nobody(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path
) -> None:
    one_gpu_nodes(cluster, 1)
    deep = workload("deep")
    deep["spec"]["template"]["spec"]["containers"][0]["odd"] = NESTED
    create_nested(cluster, WORKLOADS, deep, WORKLOAD_LEVELS, tmp_path)
    for name in ("first", "second"):
        with running_controller(cluster, tmp_path / f"{name}.log"):
            openrl.submit(workload(name))
            openrl.await_phase(name, "Running")
            openrl.await_that(lambda: bool(openrl.status("deep").get("reason")), "it gets no status")


@pytest.mark.parametrize("is_controller", [True, False], ids=["controller", "owner"])
def test_a_pod_elsewhere_that_names_our_workload_keeps_nothing(
    cluster: Cluster, openrl: WorkloadClient, start: Start, *, is_controller: bool
) -> None:
    one_gpu_nodes(cluster, 1)
    start({})
    openrl.submit(workload("trainer"))
    openrl.await_phase("trainer", "Running")
    uid = cluster.api.get(f"{WORKLOADS}/trainer")["metadata"]["uid"]
    owner = {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "Workload",
        "name": "trainer",
        "uid": uid,
        "controller": is_controller,
    }
    # The garbage collector deletes the Pod of an owner that does not exist in its namespace; the finalizer
    # keeps it.
    with deleted_at_the_end(cluster):
        cluster.api.create(ELSEWHERE, stranger({"ownerReferences": [owner], "finalizers": [FINALIZER]}))
        openrl.delete("trainer")
        openrl.await_gone()
        assert cluster.api.find(f"{ELSEWHERE}/stranger") is not None
