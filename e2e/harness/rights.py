"""The permissions that controllers used, from audit logs, compared with those that the manifests grant.

The authorizer logs the binding that allowed each request, so a permission that two roles grant counts for the
role that was used. Only requests with the user agent of the program count, because tests also send requests
with its identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controller.config.flags import PROGRAM
from e2e.controlplane import (
    CONTROLLER_NAMESPACE,
    CONTROLLER_USER,
    WORKER_NAMESPACE,
    AuditLog,
    Cluster,
    Object,
    Request,
)
from e2e.controlplane.processes.identity import CONTROLLER_SERVICE_ACCOUNT
from e2e.harness.faults import require_local


class Right(NamedTuple):
    """One verb on one resource, granted by one binding. An empty `name` means all names."""

    binding: str
    resource: str
    name: str
    verb: str


UNAUDITED = {
    Right(
        "RoleBinding open-rl-scheduler/openrl-system", "workloads/finalizers.openrl.io", "", "update"
    ): "not a request: admission checks it for owner references that block deletion (tested below)",
}
"""Required permissions that have no line of their own in an audit log, with the reason."""

LEASES = "leases.coordination.k8s.io"
"""With a kubeconfig, the lease is in the workers' namespace. Tests with an election grant this themselves."""


def granted(installed: Iterable[Object]) -> frozenset[Right]:
    """Return every permission of the controller's ServiceAccount, from the installed objects."""
    objects = list(installed)
    roles = {_address(item): item for item in objects if item["kind"] in {"Role", "ClusterRole"}}
    return frozenset(
        Right(_binding_name(binding), _qualified(resource, group), name, verb)
        for binding in objects
        if any(_is_account(subject) for subject in binding.get("subjects", ()))
        for rule in roles[_role_of(binding)]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    )


def controller_requests(cluster: Cluster) -> Iterator[Request]:
    """Yield the requests of all controllers of this session, to all API servers of the cluster."""
    for log in sorted(require_local(cluster).folder.glob("*audit.log")):
        for request in AuditLog(log).requests(user=CONTROLLER_USER):
            if request.user_agent.startswith(f"{PROGRAM}/"):
                yield request


def used(requests: Iterable[Request], rights: frozenset[Right]) -> tuple[set[Right], list[Request]]:
    """Return the granted permissions that were used, and the requests that none of them covers.

    A covered request may still have been refused, by an API server that had just started and not read all
    roles yet.
    """
    seen, uncovered = set[Right](), list[Request]()
    for request in requests:
        if not request.of_resource:
            continue  # discovery, which every authenticated user may read
        covering = [right for right in rights if _covers(right, request)]
        seen |= {right for right in covering if right.binding == request.binding}
        of_tests = request.namespace == WORKER_NAMESPACE and _resource(request) == LEASES
        if not covering and not of_tests:
            uncovered.append(request)
    return seen, uncovered


def _covers(right: Right, request: Request) -> bool:
    _, _, namespace = right.binding.partition("/")
    return (
        right.resource == _resource(request)
        and right.verb == request.kind.verb
        and right.name in {"", request.name}
        and namespace in {"", request.namespace}
    )


def _resource(request: Request) -> str:
    return _qualified(request.kind.resource, request.group)


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def _is_account(subject: Object) -> bool:
    expected = ("ServiceAccount", CONTROLLER_SERVICE_ACCOUNT, CONTROLLER_NAMESPACE)
    return (subject["kind"], subject["name"], subject.get("namespace")) == expected


def _address(item: Object) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _role_of(binding: Object) -> tuple[str, str, str]:
    reference = binding["roleRef"]
    namespace = binding["metadata"]["namespace"] if reference["kind"] == "Role" else ""
    return reference["kind"], namespace, reference["name"]


def _binding_name(binding: Object) -> str:
    _, namespace, name = _address(binding)
    return f"{binding['kind']} {name}/{namespace}" if namespace else f"{binding['kind']} {name}"
