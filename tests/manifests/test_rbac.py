"""Tests of RBAC: the controller has exactly the rights of contract §7.2.

The scenario tests check with the audit log that each right is used.
"""

from __future__ import annotations

from controller.api import names
from tests.manifests.rights import ACCOUNT, CLUSTER, CONTRACT, Grant, grants, rights
from tests.manifests.tree import CONTROLLER_NAMESPACE, Object, objects, only


def bindings_of_the_account() -> list[Object]:
    return [item for item in objects() if ACCOUNT in item.get("subjects", [])]


def test_the_controller_has_exactly_these_rights() -> None:
    pairs: list[tuple[Grant, str]] = []
    for binding in bindings_of_the_account():
        namespace = binding["metadata"].get("namespace")
        reference = binding["roleRef"]
        # A ClusterRole that is bound in another scope would have another key.
        in_namespace = namespace if reference["kind"] == "Role" else None
        pairs += grants(only(reference["kind"], reference["name"], in_namespace), namespace or CLUSTER)

    assert rights(pairs) == CONTRACT


def test_there_are_no_other_bindings() -> None:
    bindings = [item for item in objects() if item["kind"] in {"RoleBinding", "ClusterRoleBinding"}]

    assert [binding["subjects"] for binding in bindings] == [[ACCOUNT]] * len(bindings)


def test_the_names_match_those_of_the_controller() -> None:
    assert ACCOUNT["name"] == names.SERVICE_ACCOUNT
    assert (CONTROLLER_NAMESPACE, "leases.coordination.k8s.io", names.LEADER_LEASE) in CONTRACT
    assert only("ServiceAccount", names.SERVICE_ACCOUNT, CONTROLLER_NAMESPACE)


def test_users_never_write_ledgers_or_status() -> None:
    for name in ("open-rl-workload-viewer", "open-rl-workload-editor"):
        for (_, resource, _), verb in grants(only("ClusterRole", name), CLUSTER):
            if resource != "workloads.openrl.io":
                assert verb in {"get", "list", "watch"}, f"{name} may {verb} {resource}"


def test_the_viewer_reads_and_the_editor_writes_workloads() -> None:
    viewer = rights(grants(only("ClusterRole", "open-rl-workload-viewer"), CLUSTER))
    editor = rights(grants(only("ClusterRole", "open-rl-workload-editor"), CLUSTER))

    assert viewer[CLUSTER, "workloads.openrl.io", ""] == {"get", "list", "watch"}
    assert editor[CLUSTER, "workloads.openrl.io", ""] == {
        "get", "list", "watch", "create", "update", "patch", "delete",
    }  # fmt: skip


def test_creating_workloads_is_never_granted_by_aggregation() -> None:
    for item in objects():
        if item["kind"] == "ClusterRole" and any(
            label.startswith("rbac.authorization.k8s.io/aggregate-to-")
            for label in item["metadata"].get("labels", {})
        ):
            verbs = {verb for _, verb in grants(item, CLUSTER)}
            assert verbs <= {"get", "list", "watch"}, item["metadata"]["name"]
