"""The rights that controllers used, by the API servers' audit logs, next to those that the manifests grant.

The authorizer writes into each line of the log which binding allowed the request, so that a right that two
roles grant counts for the one that was needed first. Only requests of the program itself count, told by its
user agent: tests that ask with its identity what it may do prove nothing about what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controller.config.settings import PROGRAM
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
from e2e.harness.faults import local


class Right(NamedTuple):
    """One verb on one resource, by one binding; `name` is empty where every name is meant."""

    binding: str
    resource: str
    name: str
    verb: str


UNSEEN = {
    Right(
        "RoleBinding open-rl-scheduler/openrl-system", "workloads/finalizers.openrl.io", "", "update"
    ): "never sent: admission asks for it where an owner reference blocks its owner's deletion (shown below)",
}
"""Rights that are needed and leave no line of their own in an audit log, each with the reason."""

LEASES = "leases.coordination.k8s.io"
"""With a kubeconfig the lease lives in the workers' namespace: tests that elect so grant that themselves."""


def granted(installed: Iterable[Object]) -> frozenset[Right]:
    """Every right of the controller's account, from the objects that are installed."""
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


def requests_of_controllers(cluster: Cluster) -> Iterator[Request]:
    """What every controller sent in this session, to every API server of the cluster."""
    for log in sorted(local(cluster).folder.glob("*audit.log")):
        for request in AuditLog(log).requests(user=CONTROLLER_USER):
            if request.user_agent.startswith(f"{PROGRAM}/"):
                yield request


def used(requests: Iterable[Request], rights: frozenset[Right]) -> tuple[set[Right], list[Request]]:
    """The granted rights that were used, and the requests that none of them covers.

    A request that is covered and refused all the same met an API server that had just started: it serves
    before it has read all roles.
    """
    seen, beyond = set[Right](), list[Request]()
    for request in requests:
        if not request.of_resource:
            continue  # discovery, which every authenticated user may
        covering = [right for right in rights if _covers(right, request)]
        seen |= {right for right in covering if right.binding == request.binding}
        of_tests = request.namespace == WORKER_NAMESPACE and _resource(request) == LEASES
        if not covering and not of_tests:
            beyond.append(request)
    return seen, beyond


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
    wanted = ("ServiceAccount", CONTROLLER_SERVICE_ACCOUNT, CONTROLLER_NAMESPACE)
    return (subject["kind"], subject["name"], subject.get("namespace")) == wanted


def _address(item: Object) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _role_of(binding: Object) -> tuple[str, str, str]:
    reference = binding["roleRef"]
    namespace = binding["metadata"]["namespace"] if reference["kind"] == "Role" else ""
    return reference["kind"], namespace, reference["name"]


def _binding_name(binding: Object) -> str:
    _, namespace, name = _address(binding)
    return f"{binding['kind']} {name}/{namespace}" if namespace else f"{binding['kind']} {name}"
