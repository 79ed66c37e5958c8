"""Facts about Pods that several checks read: owner, end, claims and assignment."""

from __future__ import annotations

from typing import Any

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import WORKLOADS
from simulation.cluster.simulated_cluster import WORKER_NAMESPACE

TERMINAL = ("Succeeded", "Failed")
OWN_ENTRY = "gpu"
"""The name of the controller's entry in `spec.resourceClaims`; admission may add others (contract §2.3)."""


def owner_uid(pod: Document) -> str:
    """Return the UID of the Workload that controls a Pod, empty for foreign Pods.

    A Workload controls nothing in another namespace, whatever the owner references say.
    """
    if pod["metadata"].get("namespace") != WORKER_NAMESPACE:
        return ""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((o["uid"] for o in owners if o.get("controller") and o["kind"] == WORKLOADS.kind), "")


def has_ended(pod: Document) -> bool:
    """Return whether a Pod no longer runs: its phase is final, or it was deleted before it was bound.

    The API server refuses to bind a Pod that is being deleted.
    """
    never_runs = "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
    return never_runs or (pod.get("status") or {}).get("phase") in TERMINAL


def claim_names(pod: Document) -> list[str]:
    """Return the names of the claims that a Pod uses."""
    return [entry["resourceClaimName"] for entry in pod["spec"].get("resourceClaims") or ()]


def assignment_of_pod(pod: Document) -> tuple[Any, Any]:
    """Return the claim and the assignment ID that a Pod was created for."""
    env = {e["name"]: e.get("value") for c in pod["spec"]["containers"] for e in c.get("env") or ()}
    entries = {
        entry["name"]: entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims") or ()
    }
    return entries.get(OWN_ENTRY), env.get("OPEN_RL_ASSIGNMENT_ID")


def pod_events(pod: Document) -> frozenset[str]:
    """Return what has happened to a Pod, as names of coverage points."""
    status = pod["status"]
    reasons = {
        (each["type"], each["status"]): each.get("reason", "") for each in status.get("conditions") or ()
    }
    disrupted = reasons.get(("DisruptionTarget", "True"))
    own_fault = status.get("reason") == "Evicted" and disrupted is None and status.get("containerStatuses")
    seen = {
        "place refused": is_refused(pod),
        "evicted by device": disrupted == "DeletionByDeviceTaintManager",
        "evicted for own fault": bool(own_fault),
    }
    return frozenset(name for name, happened in seen.items() if happened)


def is_refused(pod: Document) -> bool:
    """Return whether kube-scheduler found no node for a Pod."""
    return any(
        (each["type"], each["status"], each.get("reason")) == ("PodScheduled", "False", "Unschedulable")
        for each in pod["status"].get("conditions") or ()
    )
