"""The controller has exactly the permissions that it uses, according to the audit log of the whole session.

This module runs last. A partial run only checks that no request lacked a permission. A run of the whole suite
(`make e2e`) also checks that every permission is used.
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
    """Return the permissions that the manifests grant."""
    return granted(yaml.safe_load_all(cluster.kubectl("kustomize", str(MANIFESTS))))


@pytest.fixture
def without_finalizers(cluster: Cluster) -> Iterator[None]:
    """Remove the permission on `workloads/finalizers` from the controller's Role."""
    rules = cluster.api.get(ROLE)["rules"]
    less = [rule for rule in rules if rule["resources"] != ["workloads/finalizers"]]
    assert len(less) == len(rules) - 1
    cluster.api.patch(ROLE, {"rules": less})
    yield
    cluster.api.patch(ROLE, {"rules": rules})


def blocking_pod(owner: Object) -> Object:
    """Return a Pod that blocks its owner's deletion, as every worker's Pod does."""
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
def test_a_pod_cannot_be_owned_without_the_permission_on_finalizers(cluster: Cluster) -> None:
    """No request uses it: the admission plugin OwnerReferencesPermissionEnforcement checks it."""
    pod = blocking_pod(cluster.api.create(WORKLOADS, workload("owner")))
    with Api.from_kubeconfig(cluster.controller_kubeconfig) as controller:

        def refusal() -> str | None:
            try:
                controller.request("POST", f"{PODS}?dryRun=All", pod)
            except ApiRefused as error:
                return error.message if error.status == FORBIDDEN else None
            return None

        message = wait_until(refusal, "the Pod is accepted without the permission", timeout_seconds=10)
    assert "cannot set blockOwnerDeletion" in message


def test_a_repeated_event_is_patched(cluster: Cluster, openrl: WorkloadClient, start: Start) -> None:
    """A repeated Event is patched a minute later or at shutdown, and few scenarios take that long."""
    one_gpu_nodes(cluster, 1)
    mark = cluster.audit.mark()
    controller = start({})
    openrl.submit(workload("trainer"))
    openrl.await_phase("trainer", "Running")
    (first,) = openrl.pods()

    cluster.api.delete(f"{PODS}/orw-trainer")
    wait_until(
        lambda: first["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in openrl.pods()},
        "the Pod is not deleted",
        timeout_seconds=20,
    )
    openrl.await_that(lambda: len(openrl.pods()) == 1, "the Pod is not created again")
    openrl.await_phase("trainer", "Running")
    assert controller.stop() == 0

    patches = cluster.audit.count(since=mark, user=CONTROLLER_USER, verb="patch", resource="events")
    assert patches >= 1


def test_exactly_the_granted_permissions_are_used(
    cluster: Cluster, shipped: frozenset[Right], full_run: bool
) -> None:
    seen, uncovered = used(controller_requests(cluster), shipped)

    requested = {
        f"{r.kind.verb} {r.kind.resource} in {r.namespace or 'the cluster'}: {r.code}" for r in uncovered
    }
    assert sorted(requested) == [], "requested without a permission"
    assert not seen & UNAUDITED.keys(), "listed as never audited, but in the audit log"
    assert shipped >= UNAUDITED.keys()
    if full_run:
        assert sorted(shipped - seen - UNAUDITED.keys()) == [], "granted but never used"
