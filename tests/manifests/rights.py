"""The controller's rights (contract §7.2), and a parser of RBAC rules."""

from __future__ import annotations

from collections.abc import Iterable

from tests.manifests.tree import CONTROLLER_NAMESPACE, WORKER_NAMESPACE, Object

CLUSTER = ""
MANAGED = frozenset({"get", "list", "watch", "create", "patch", "delete"})
READ = frozenset({"list", "watch"})

Grant = tuple[str, str, str]
"""Namespace, resource (`plural.group`) and object name (empty: all objects)."""

CONTRACT: dict[Grant, frozenset[str]] = {
    (WORKER_NAMESPACE, "workloads.openrl.io", ""): frozenset({"get", "list", "watch", "patch"}),
    (WORKER_NAMESPACE, "workloads/status.openrl.io", ""): frozenset({"patch"}),
    (WORKER_NAMESPACE, "workloads/finalizers.openrl.io", ""): frozenset({"update"}),
    (WORKER_NAMESPACE, "claimledgers.openrl.io", ""): MANAGED,
    (WORKER_NAMESPACE, "resourceclaims.resource.k8s.io", ""): MANAGED,
    # The contract also allows list, watch and patch here. The cluster-wide rights below include the first
    # two, and the controller never patches a Pod.
    (WORKER_NAMESPACE, "pods", ""): frozenset({"get", "create", "delete"}),
    (WORKER_NAMESPACE, "events.events.k8s.io", ""): frozenset({"create", "patch"}),
    (CLUSTER, "nodes", ""): READ,
    (CLUSTER, "pods", ""): READ,
    (CLUSTER, "resourceslices.resource.k8s.io", ""): READ,
    (CLUSTER, "deviceclasses.resource.k8s.io", ""): READ,
    (CONTROLLER_NAMESPACE, "leases.coordination.k8s.io", "placement.openrl.io"): frozenset({"get", "patch"}),
    (CONTROLLER_NAMESPACE, "leases.coordination.k8s.io", ""): frozenset({"create"}),
}

ACCOUNT = {"kind": "ServiceAccount", "name": "open-rl-scheduler", "namespace": CONTROLLER_NAMESPACE}


def grants(role: Object, namespace: str) -> Iterable[tuple[Grant, str]]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    for verb in rule["verbs"]:
                        yield (namespace, f"{resource}.{group}" if group else resource, name), verb


def rights(pairs: Iterable[tuple[Grant, str]]) -> dict[Grant, frozenset[str]]:
    collected: dict[Grant, frozenset[str]] = {}
    for grant, verb in pairs:
        collected[grant] = collected.get(grant, frozenset()) | {verb}
    return collected
