"""Build the document of a worker's Pod.

Pure. The inputs are the Workload, its assignment and the preferred nodes. The template is copied, never
modified. Our labels, environment variables and scheduling terms override those of the template.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from controller.api import names
from controller.api.status import Assignment
from controller.api.workload import WORKLOADS, Workload
from ledger.claim_names import ledger_name
from placement.device_request import REQUEST_NAME
from placement.types import PreferredNode, Role


def pod_document(
    workload: Workload, assignment: Assignment, preferred: Sequence[PreferredNode], required_node: str = ""
) -> dict[str, Any]:
    """Build the worker's Pod: the template plus name, labels, owner, claim, variables and node affinity."""
    template = workload.spec.template
    metadata = template.get("metadata", {})
    spec = copy.deepcopy(dict(template.get("spec", {})))
    spec["resourceClaims"] = [{"name": REQUEST_NAME, "resourceClaimName": assignment.claim}]
    spec["affinity"] = {"nodeAffinity": node_affinity(workload.spec.role, preferred, required_node)}
    for container in spec["containers"]:
        if container.get("name") == workload.spec.worker_container_name:
            _connect(container, assignment)
    labels = names.pod_labels(
        workload=workload.name,
        owner_key=workload.owner_key,
        role=workload.spec.role,
        claim=assignment.claim,
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.pod_name(workload.name),
            "namespace": workload.metadata.namespace,
            "labels": {**metadata.get("labels", {}), **labels},
            "annotations": {
                **metadata.get("annotations", {}),
                names.WORKLOAD_ANNOTATION: f"{workload.name}/{workload.uid}",
            },
            "ownerReferences": [
                {
                    "apiVersion": WORKLOADS.api_version,
                    "kind": WORKLOADS.kind,
                    "name": workload.name,
                    "uid": workload.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec,
    }


def node_affinity(role: str, preferred: Sequence[PreferredNode], required_node: str = "") -> dict[str, Any]:
    """Build the affinity: require an enabled node that accepts the role, then prefer nodes by weight.

    A node accepts the role if it has the role's label or no role label. `required_node`, if not empty, is the
    only node that may hold the Pod.
    """
    enabled = {"key": names.ENABLED_LABEL, "operator": "In", "values": ["true"]}
    labeled = {"key": names.role_node_label(role), "operator": "In", "values": ["true"]}
    unlabeled = [{"key": names.role_node_label(r.value), "operator": "DoesNotExist"} for r in Role]
    fields = {"matchFields": _named(required_node)} if required_node else {}
    affinity: dict[str, Any] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [enabled, labeled], **fields},
                {"matchExpressions": [enabled, *unlabeled], **fields},
            ]
        }
    }
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": term.weight, "preference": {"matchFields": _named(term.node)}} for term in preferred
        ]
    return affinity


def _named(node: str) -> list[dict[str, Any]]:
    """Build the field selector of one node."""
    return [{"key": "metadata.name", "operator": "In", "values": [node]}]


def _connect(container: dict[str, Any], assignment: Assignment) -> None:
    """Give the worker container its device and the variables that identify its assignment."""
    resources = dict(container.get("resources", {}))
    resources["claims"] = [{"name": REQUEST_NAME}]
    container["resources"] = resources
    variables = {
        names.GROUP_ENV: assignment.claim,
        names.LEDGER_ENV: ledger_name(assignment.claim),
        names.ASSIGNMENT_ENV: assignment.assignment_id,
    }
    kept = [v for v in container.get("env", ()) if v.get("name") not in variables]
    container["env"] = [*kept, *({"name": name, "value": value} for name, value in variables.items())]
