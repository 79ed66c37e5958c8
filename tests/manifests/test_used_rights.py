"""Tests of the comparison of an audit log with the rights: used, unused and missing."""

from __future__ import annotations

from dataclasses import replace

from e2e.controlplane import CONTROLLER_USER, WORKER_NAMESPACE, Request, RequestKind
from e2e.harness.rights import UNAUDITED, Right, granted, used
from tests.manifests.rights import CLUSTER, CONTRACT
from tests.manifests.tree import CONTROLLER_NAMESPACE, objects

SHIPPED = granted(objects())
WORKERS = f"RoleBinding open-rl-scheduler/{WORKER_NAMESPACE}"
WHOLE = "ClusterRoleBinding open-rl-scheduler"
ELECTION = f"RoleBinding open-rl-scheduler-leader-election/{CONTROLLER_NAMESPACE}"


def request(
    verb: str, resource: str, *, group: str = "", namespace: str = WORKER_NAMESPACE, binding: str = WORKERS
) -> Request:
    kind = RequestKind(CONTROLLER_USER, verb, resource)
    return Request(kind, namespace, "x", 200, "", "", group, binding=binding)


def test_the_rights_by_binding_are_those_of_the_contract() -> None:
    bindings = {WORKER_NAMESPACE: WORKERS, CONTROLLER_NAMESPACE: ELECTION, CLUSTER: WHOLE}

    assert {
        Right(bindings[namespace], resource, name, verb)
        for (namespace, resource, name), verbs in CONTRACT.items()
        for verb in verbs
    } == SHIPPED
    assert UNAUDITED.keys() <= SHIPPED


def test_a_right_counts_for_the_binding_that_allowed_the_request() -> None:
    seen, beyond = used(
        [
            request("get", "pods"),
            request("list", "pods", namespace="", binding=WHOLE),
            request("patch", "workloads/status", group="openrl.io"),
        ],
        SHIPPED,
    )

    assert seen == {
        Right(WORKERS, "pods", "", "get"),
        Right(WHOLE, "pods", "", "list"),
        Right(WORKERS, "workloads/status.openrl.io", "", "patch"),
    }
    assert not beyond


def test_a_named_right_is_used_by_that_name_only() -> None:
    lease = request(
        "get", "leases", group="coordination.k8s.io", namespace=CONTROLLER_NAMESPACE, binding=ELECTION
    )
    ours = replace(lease, name="placement.openrl.io")

    assert used([ours], SHIPPED) == (
        {Right(ELECTION, "leases.coordination.k8s.io", "placement.openrl.io", "get")},
        [],
    )
    assert used([lease], SHIPPED) == (set(), [lease])


def test_a_request_without_a_grant_is_missing() -> None:
    refused = replace(request("get", "secrets", binding=""), code=403)
    elsewhere = request("get", "pods", namespace="kube-system", binding="")
    by_others = request("delete", "nodes", namespace="", binding="ClusterRoleBinding cluster-admin")

    assert used([refused, elsewhere, by_others], SHIPPED) == (set(), [refused, elsewhere, by_others])


def test_a_granted_request_refused_at_server_start_is_ignored() -> None:
    assert used([replace(request("get", "pods", binding=""), code=403)], SHIPPED) == (set(), [])


def test_discovery_needs_no_right() -> None:
    assert used([replace(request("get", "/apis", binding=""), of_resource=False)], SHIPPED) == (set(), [])
