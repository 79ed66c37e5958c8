"""The worker's Pod and its ResourceClaim as documents to create.

Pure: built from the Workload, its assignment and the shapes that the fleet offers. The template is copied,
never changed; our labels, stamps and scheduling terms win over what it holds.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from controller.api import names
from controller.api.status import Assignment
from controller.api.workload import WORKLOADS, Workload
from ledger.names import MANAGED_LABEL, MANAGED_VALUE, ledger_name
from ledger.state import CLAIM_LEDGERS_API_VERSION, CLAIM_LEDGERS_KIND
from placement.types import PreferredNode


def claim_document(name: str, namespace: str, ledger_uid: str, requests: Sequence[dict[str, Any]]) -> Any:
    """A ResourceClaim owned by its ledger, so that garbage collection finishes a half-done retirement."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {MANAGED_LABEL: MANAGED_VALUE},
            "ownerReferences": [ledger_reference(name, ledger_uid)],
        },
        "spec": {"devices": {"requests": list(requests)}},
    }


def ledger_reference(claim: str, ledger_uid: str) -> dict[str, str]:
    """The owner reference of a claim to its ledger."""
    return {
        "apiVersion": CLAIM_LEDGERS_API_VERSION,
        "kind": CLAIM_LEDGERS_KIND,
        "name": ledger_name(claim),
        "uid": ledger_uid,
    }


def pod_document(
    workload: Workload, assignment: Assignment, preferred: Sequence[PreferredNode]
) -> dict[str, Any]:
    """The worker's Pod: the template with our name, labels, owner, claim, stamps and node affinity."""
    template = workload.spec.template
    metadata = template.get("metadata", {})
    spec = copy.deepcopy(dict(template.get("spec", {})))
    spec["resourceClaims"] = [{"name": names.POD_CLAIM_ENTRY, "resourceClaimName": assignment.claim}]
    spec["affinity"] = {"nodeAffinity": node_affinity(workload.spec.role, preferred)}
    for container in spec["containers"]:
        if container.get("name") == workload.spec.worker_container_name:
            _stamp(container, assignment)
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
            "annotations": dict(metadata.get("annotations", {})),
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


def node_affinity(role: str, preferred: Sequence[PreferredNode]) -> dict[str, Any]:
    """Required: an enabled node that accepts the role (its label, or no role label); then preferences."""
    enabled = {"key": names.ENABLED_LABEL, "operator": "In", "values": ["true"]}
    asked = {"key": names.role_node_label(role), "operator": "In", "values": ["true"]}
    unlabelled = [{"key": names.role_node_label(r.value), "operator": "DoesNotExist"} for r in names.ROLES]
    affinity: dict[str, Any] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [enabled, asked]},
                {"matchExpressions": [enabled, *unlabelled]},
            ]
        }
    }
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": term.weight,
                "preference": {
                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": [term.node]}]
                },
            }
            for term in preferred
        ]
    return affinity


def _stamp(container: dict[str, Any], assignment: Assignment) -> None:
    """Give the worker container the device and the variables that tell it where it sits."""
    resources = dict(container.get("resources", {}))
    resources["claims"] = [{"name": names.POD_CLAIM_ENTRY}]
    container["resources"] = resources
    stamps = {
        names.GROUP_ENV: assignment.claim,
        names.LEDGER_ENV: ledger_name(assignment.claim),
        names.ASSIGNMENT_ENV: assignment.assignment_id,
    }
    kept = [v for v in container.get("env", ()) if v.get("name") not in stamps]
    container["env"] = [*kept, *({"name": name, "value": value} for name, value in stamps.items())]
