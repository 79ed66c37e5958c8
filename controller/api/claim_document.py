"""Build the document of a ResourceClaim, and the owner reference to its ledger. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller.api.dra import ResourceClaim
from ledger.claim_names import MANAGED_LABEL, MANAGED_VALUE, ledger_name
from ledger.state import CLAIM_LEDGERS_API_VERSION, CLAIM_LEDGERS_KIND
from placement.device_request import REQUEST_NAME


def claim_document(name: str, namespace: str, ledger_uid: str, requests: Sequence[dict[str, Any]]) -> Any:
    """Build a ResourceClaim. Its ledger owns it, so that garbage collection completes a partial teardown."""
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
    """Build the owner reference from a claim to its ledger."""
    return {
        "apiVersion": CLAIM_LEDGERS_API_VERSION,
        "kind": CLAIM_LEDGERS_KIND,
        "name": ledger_name(claim),
        "uid": ledger_uid,
    }


def is_own_claim(claim: ResourceClaim) -> bool:
    """Return whether a claim with one of our names is ours: a ledger owns it, or it has our request.

    Somebody may have removed the owner. A foreign claim has neither, and never gets an owner.
    """
    if any(owner.kind == CLAIM_LEDGERS_KIND for owner in claim.metadata.owner_references):
        return True
    requests = claim.spec.devices.requests
    return len(requests) == 1 and requests[0].name == REQUEST_NAME and bool(requests[0].first_available)
