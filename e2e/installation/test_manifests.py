"""The manifests on a real API server: they install, kubectl prints the columns that they declare, and the
controller has the permissions of the contract. The controller does not run here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.controlplane import (
    CONTROLLER_NAMESPACE,
    CONTROLLER_USER,
    WORKER_NAMESPACE,
    Api,
    Cluster,
    Object,
    wait_until,
)
from e2e.controlplane.cluster import MANIFESTS
from e2e.harness.manifest_objects import LEDGERS, WORKLOADS, ledger, refused, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

FORBIDDEN = 403

BUILT_IN_GROUPS = {"authentication.k8s.io", "authorization.k8s.io"}
"""The groups in which every authenticated user has permissions: self reviews and access reviews."""

Rights = set[tuple[str, str, str, str]]
"""Group, resource, name (empty: all names) and verb."""


@pytest.fixture
def controller(cluster: Cluster) -> Iterator[Api]:
    with Api.from_kubeconfig(cluster.controller_kubeconfig) as api:
        yield api


def build(cluster: Cluster, folder: Path = MANIFESTS) -> list[Object]:
    return list(yaml.safe_load_all(cluster.kubectl("kustomize", str(folder))))


def test_the_installed_objects_equal_the_manifests(cluster: Cluster) -> None:
    """The server neither adds nor drops a field, so `kubectl diff` exits with 0."""
    assert cluster.kubectl("diff", "-k", str(MANIFESTS)) == ""


def test_server_side_apply_accepts_the_manifests(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--server-side", "--dry-run=server", "--force-conflicts", "-k", str(MANIFESTS))


def test_the_samples_are_accepted(cluster: Cluster) -> None:
    answer = cluster.kubectl("apply", "-k", str(MANIFESTS / "samples"), "--validate=strict")

    assert len(answer.splitlines()) == len(build(cluster, MANIFESTS / "samples"))


@pytest.mark.parametrize("folder", ["controller", "samples"])
def test_the_restricted_profile_admits_the_pods(cluster: Cluster, folder: str) -> None:
    templates = [item["spec"].get("template") for item in build(cluster, MANIFESTS / folder)]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": template["spec"]}
        for template in templates
        if template
    ]

    assert pods
    for pod in pods:
        cluster.api.request("POST", f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/pods?dryRun=All", pod)


def test_kubectl_lists_both_kinds_by_their_short_names(cluster: Cluster) -> None:
    cluster.api.create(WORKLOADS, workload(ownerID="team-a"))
    status = {
        "phase": "Running",
        "claimName": "claim-1",
        "nodeName": "node-1",
        "deviceCount": 1,
        "memoryPerDevice": "60Gi",
        "reason": "JoinedClaim: claim-1",
    }
    cluster.api.patch(f"{WORKLOADS}/worker-1/status", {"status": status})
    cluster.api.request("POST", LEDGERS, ledger())

    narrow = cluster.kubectl("get", "owl", "-n", WORKER_NAMESPACE).split()
    wide = cluster.kubectl("get", "owl", "-n", WORKER_NAMESPACE, "-o", "wide").splitlines()
    ledgers = cluster.kubectl("get", "ocl", "-n", WORKER_NAMESPACE).split()

    columns = ["NAME", "ROLE", "OWNER", "GPUS", "MEMEACH", "PHASE", "CLAIM", "NODE", "AGE"]
    assert narrow[:-1] == [
        *columns, "worker-1", "trainer", "team-a", "1", "60Gi", "Running", "claim-1", "node-1",
    ]  # fmt: skip
    assert wide[0].split() == [*columns, "REASON"]
    assert wide[1].endswith("JoinedClaim: claim-1")
    assert ledgers[:-1] == ["NAME", "CLAIM", "AGE", "ledger-worker-1-0a1b2c3d", "claim-worker-1-0a1b2c3d"]


def test_kubectl_explains_every_field(cluster: Cluster) -> None:
    for path in (
        "workload",
        "workload.spec",
        "workload.spec.accelerator",
        "workload.status",
        "ocl.spec.seats",
    ):
        answer = cluster.kubectl("explain", path)

        assert "<no description>" not in answer, path
        assert "FIELDS:" in answer, path


def rights(rules: Iterable[Object]) -> Rights:
    return {
        (group, resource, name, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("namespace", [WORKER_NAMESPACE, CONTROLLER_NAMESPACE, "kube-system"])
def test_the_controller_has_exactly_the_permissions_of_its_roles(
    cluster: Cluster, controller: Api, namespace: str
) -> None:
    """`tests/manifests` compares the roles with the contract."""
    ours = [
        role
        for role in build(cluster)
        if (role["kind"] == "Role" and role["metadata"]["namespace"] == namespace)
        or (role["kind"] == "ClusterRole" and role["metadata"]["name"] == "open-rl-scheduler")
    ]  # fmt: skip
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }

    answer = controller.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)["status"]

    granted = {right for right in rights(answer["resourceRules"]) if right[0] not in BUILT_IN_GROUPS}
    assert not answer["incomplete"]
    assert granted == rights(rule for role in ours for rule in role["rules"])


@pytest.mark.parametrize(
    "path",
    [
        f"/api/v1/namespaces/{WORKER_NAMESPACE}/secrets",
        f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/secrets",
        f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/pods/x",
        f"/apis/coordination.k8s.io/v1/namespaces/{CONTROLLER_NAMESPACE}/leases",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/openrl.io/v1alpha1/workloads",
    ],
)
def test_the_controller_cannot_read(controller: Api, path: str) -> None:
    refused(lambda: controller.get(path), FORBIDDEN)


@pytest.mark.parametrize(
    ("group", "kinds"),
    [
        ("resource.k8s.io/v1", {"resourceclaims", "resourceslices", "deviceclasses"}),
        ("openrl.io/v1alpha1", {"workloads", "workloads/status", "claimledgers"}),
    ],
)
def test_discovery_needs_no_permission(controller: Api, group: str, kinds: set[str]) -> None:
    served = {resource["name"] for resource in controller.get(f"/apis/{group}")["resources"]}

    assert served >= kinds


def test_the_controller_cannot_create_workloads(controller: Api) -> None:
    refused(lambda: controller.create(WORKLOADS, workload()), FORBIDDEN)


def may(cluster: Cluster, user: str, verb: str, resource: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "resourceAttributes": {
                "group": "openrl.io", "resource": resource, "verb": verb, "namespace": WORKER_NAMESPACE,
            },
        },
    }  # fmt: skip
    answer = cluster.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize(
    ("role", "writes"), [("open-rl-workload-viewer", False), ("open-rl-workload-editor", True)]
)
def test_roles_for_people(cluster: Cluster, role: str, writes: bool) -> None:
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{WORKER_NAMESPACE}/rolebindings"
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "test-people"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }
    cluster.api.create(bindings, binding)
    try:
        # The authorizer learns of a new binding through a watch.
        wait_until(
            lambda: may(cluster, "jane", "watch", "workloads"), f"{role} does not work", timeout_seconds=10
        )
        assert may(cluster, "jane", "get", "claimledgers")
        assert may(cluster, "jane", "create", "workloads") is writes
        assert not may(cluster, "jane", "patch", "claimledgers")
        assert not may(cluster, CONTROLLER_USER, "create", "workloads")
    finally:
        cluster.api.delete(f"{bindings}/test-people")
