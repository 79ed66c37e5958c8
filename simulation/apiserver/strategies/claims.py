"""ResourceClaims: the spec is immutable, and an allocation is set or cleared but never edited.

Source: `ValidateResourceClaimStatusUpdate` of `k8s.io/kubernetes/pkg/apis/resource/validation`.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation.apiserver.documents import Document
from simulation.apiserver.strategies.base import SPEC_IMMUTABLE, Strategy

MAX_ALTERNATIVES = 8
MAX_CONSUMERS = 256


class ClaimStrategy(Strategy):
    """The rules for ResourceClaims."""

    def prepare_for_create(self, document: Document) -> None:
        """Set an empty status."""
        document["status"] = {}

    def validate(self, document: Document) -> Iterator[str]:
        """Require either an exact request or alternatives, and at most as many as DRA allows."""
        for index, request in enumerate(document["spec"].get("devices", {}).get("requests") or ()):
            path = f"spec.devices.requests[{index}]"
            alternatives = request.get("firstAvailable") or ()
            if len(alternatives) > MAX_ALTERNATIVES:
                yield (
                    f"{path}.firstAvailable: Too many: {len(alternatives)}: "
                    f"must have at most {MAX_ALTERNATIVES} items"
                )
            if bool(alternatives) is bool(request.get("exactly")):
                yield f"{path}: Invalid value: exactly one of `exactly` or `firstAvailable` is required"

    def validate_create(self, document: Document) -> Iterator[str]:
        """Require a spec."""
        if "spec" not in document:
            document["spec"] = {}
        return self.validate(document)

    def validate_update(self, old: Document, new: Document) -> Iterator[str]:
        """Refuse changes to the spec."""
        if old.get("spec") != new.get("spec"):
            yield SPEC_IMMUTABLE

    def validate_status_update(self, old: Document, new: Document) -> Iterator[str]:
        """Refuse edits of an allocation, and reservations without one or on a terminating claim."""
        before, after = old.get("status") or {}, new.get("status") or {}
        allocation = after.get("allocation")
        if before.get("allocation") and allocation and before["allocation"] != allocation:
            yield "status.allocation: Invalid value: field is immutable"
        consumers = after.get("reservedFor") or []
        if consumers and not allocation:
            yield "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
        if len(consumers) > MAX_CONSUMERS:
            yield f"status.reservedFor: Too many: {len(consumers)}: must have at most {MAX_CONSUMERS} items"
        uids = [consumer["uid"] for consumer in consumers]
        if len(dict.fromkeys(uids)) != len(uids):
            yield "status.reservedFor: Duplicate value"
        known = {consumer["uid"] for consumer in before.get("reservedFor") or ()}
        if "deletionTimestamp" in old["metadata"] and any(uid not in known for uid in uids):
            text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            yield f"status.reservedFor: Forbidden: {text}"
