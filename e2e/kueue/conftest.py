"""Fixtures: a control plane with a running Kueue, and a queue for the workers' namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.controlplane import WORKER_NAMESPACE, Api, Cluster, Object, wait_until
from e2e.harness.faults import require_local
from e2e.kueue.process import NAMESPACE_LABEL, running_kueue
from e2e.kueue.program import ensure_kueue

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
FLAVORS = f"{KUEUE}/resourceflavors"
CLUSTER_QUEUES = f"{KUEUE}/clusterqueues"
LOCAL_QUEUES = f"{KUEUE}/namespaces/{WORKER_NAMESPACE}/localqueues"
QUEUE = "workers"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
ACTIVE_SECONDS = 30

SetQuota = Callable[[int], None]


@pytest.fixture(scope="module", autouse=True)
def kueue(installed_cluster_of_session: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run Kueue with one queue for the tests of a module."""
    plane = require_local(installed_cluster_of_session)
    program = ensure_kueue()
    with running_kueue(plane, program, tmp_path_factory.mktemp("kueue")):
        _create_queue(plane.api)
        yield


@pytest.fixture
def set_quota(cluster: Cluster) -> Iterator[SetQuota]:
    """Queue the Pods of the workers' namespace. A test sets, and can change, how many are admitted."""
    namespace = f"/api/v1/namespaces/{WORKER_NAMESPACE}"
    cluster.api.patch(namespace, {"metadata": {"labels": {NAMESPACE_LABEL: "on"}}})
    yield lambda pods: _set_quota(cluster.api, pods)
    cluster.api.patch(namespace, {"metadata": {"labels": {NAMESPACE_LABEL: None}}})


def _create_queue(api: Api) -> None:
    version = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    api.create(FLAVORS, {**version, "kind": "ResourceFlavor", "metadata": {"name": QUEUE}})
    queue = {**version, "kind": "ClusterQueue", "metadata": {"name": QUEUE}, "spec": _queue_spec(pods=0)}
    api.create(CLUSTER_QUEUES, queue)
    local = {
        **version,
        "kind": "LocalQueue",
        "metadata": {"name": QUEUE, "namespace": WORKER_NAMESPACE},
        "spec": {"clusterQueue": QUEUE},
    }
    api.create(LOCAL_QUEUES, local)

    def is_active() -> bool:
        conditions = api.get(f"{CLUSTER_QUEUES}/{QUEUE}").get("status", {}).get("conditions", [])
        return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)

    wait_until(is_active, "the queue is not active", timeout_seconds=ACTIVE_SECONDS)


def _set_quota(api: Api, pods: int) -> None:
    api.patch(f"{CLUSTER_QUEUES}/{QUEUE}", {"spec": _queue_spec(pods=pods)})


def _queue_spec(*, pods: int) -> Object:
    quotas = {"pods": str(pods), "cpu": "1000", "memory": "10Ti"}  # what a Pod requests must be covered
    resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]
    group = {"coveredResources": list(quotas), "flavors": [{"name": QUEUE, "resources": resources}]}
    return {"namespaceSelector": {}, "resourceGroups": [group]}


def queued(worker: Object) -> Object:
    """Make the Pod of a Workload wait in the queue of the namespace."""
    worker["spec"]["template"]["metadata"] = {"labels": {QUEUE_LABEL: QUEUE}}
    return worker
