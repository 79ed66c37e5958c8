"""The controller has exactly the rights that it uses, by the API server's own account of the whole session.

Runs last. A run of a part of the suite shows that nothing beyond the granted rights was asked for; that every
right is used is shown by the whole suite only (`make e2e`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_USER, WORKER_NAMESPACE, Api, ApiRefused, Cluster, Object, wait_until
from e2e.controlplane.cluster import MANIFESTS
from e2e.harness.rights import UNAUDITED, Right, controller_requests, granted, used
from e2e.harness.workloads import PODS, WORKLOADS, WorkloadClient, one_gpu_nodes, workload

pytest_plugins = ("e2e.controlplane.fixtures", "e2e.harness.run_last")

ROLE = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{WORKER_NAMESPACE}/roles/open-rl-scheduler"
FORBIDDEN = 403


@pytest.fixture
def shipped(cluster: Cluster) -> frozenset[Right]:
    """The rights that the built manifests grant."""
    return granted(yaml.safe_load_all(cluster.kubectl("kustomize", str(MANIFESTS))))


@pytest.fixture
def without_finalizers(cluster: Cluster) -> Iterator[None]:
    """The controller's Role without its right on `workloads/finalizers`."""
    rules = cluster.api.get(ROLE)["rules"]
    less = [rule for rule in rules if rule["resources"] != ["workloads/finalizers"]]
    assert len(less) == len(rules) - 1
    cluster.api.patch(ROLE, {"rules": less})
    yield
    cluster.api.patch(ROLE, {"rules": rules})


def blocking_pod(owner: Object) -> Object:
    """A Pod that blocks its owner's deletion, as every worker's Pod does."""
    reference = {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "Workload",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    container = {"name": "worker", "image": "worker:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "blocking", "ownerReferences": [reference]},
        "spec": {"containers": [container]},
    }


@pytest.mark.usefixtures("without_finalizers")
def test_without_the_right_on_finalizers_no_pod_may_be_owned(cluster: Cluster) -> None:
    """The right that no request carries: OwnerReferencesPermissionEnforcement asks for it."""
    pod = blocking_pod(cluster.api.create(WORKLOADS, workload("owner")))
    with Api.from_kubeconfig(cluster.controller_kubeconfig) as controller:

        def refusal() -> str | None:
            try:
                controller.request("POST", f"{PODS}?dryRun=All", pod)
            except ApiRefused as error:
                return error.message if error.status == FORBIDDEN else None
            return None

        message = wait_until(refusal, "the Pod is let in without the right", timeout_seconds=10)
    assert "cannot set blockOwnerDeletion" in message


def test_what_happens_again_is_told_in_the_same_event(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    """An Event is patched when it repeats, a minute later or at the end: few scenarios last as long."""
    one_gpu_nodes(cluster, 1)
    mark = cluster.audit.mark()
    controller = start({})
    openrl.submit(workload("trainer"))
    openrl.await_phase("trainer", "Running")
    (first,) = openrl.pods()

    cluster.api.delete(f"{PODS}/orw-trainer")
    wait_until(
        lambda: first["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in openrl.pods()},
        "the Pod does not go",
        timeout_seconds=20,
    )
    openrl.await_that(lambda: len(openrl.pods()) == 1, "the Pod does not come again")
    openrl.await_phase("trainer", "Running")
    assert controller.stop() == 0

    told = cluster.audit.count(since=mark, user=CONTROLLER_USER, verb="patch", resource="events")
    assert told >= 1


def test_what_is_used_is_what_is_granted(cluster: Cluster, shipped: frozenset[Right], full_run: bool) -> None:
    seen, beyond = used(controller_requests(cluster), shipped)

    asked = {f"{r.kind.verb} {r.kind.resource} in {r.namespace or 'the cluster'}: {r.code}" for r in beyond}
    assert sorted(asked) == [], "asked for, and not granted"
    assert not seen & UNAUDITED.keys(), "it shows in the audit log, so it needs no excuse"
    assert shipped >= UNAUDITED.keys()
    if full_run:
        assert sorted(shipped - seen - UNAUDITED.keys()) == [], "granted, and never used"
