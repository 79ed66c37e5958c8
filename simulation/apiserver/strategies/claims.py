"""ResourceClaims: the spec never changes, an allocation is set or cleared but not edited.

Source: `ValidateResourceClaimStatusUpdate` of `k8s.io/kubernetes/pkg/apis/resource/validation`.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation.apiserver.documents import Document
from simulation.apiserver.strategies.base import SPEC_IMMUTABLE, Strategy

MAX_ALTERNATIVES = 8
MAX_CONSUMERS = 256


class ClaimStrategy(Strategy):
    """What a claim's writers must keep to."""

    def prepare_create(self, document: Document) -> None:
        """Begin with an empty status."""
        document["status"] = {}

    def faults(self, document: Document) -> Iterator[str]:
        """Each request has alternatives or is exact, and no more alternatives than DRA allows."""
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

    def create_faults(self, document: Document) -> Iterator[str]:
        """A claim needs a spec."""
        if "spec" not in document:
            document["spec"] = {}
        return self.faults(document)

    def update_faults(self, old: Document, new: Document) -> Iterator[str]:
        """The spec never changes."""
        if old.get("spec") != new.get("spec"):
            yield SPEC_IMMUTABLE

    def status_faults(self, old: Document, new: Document) -> Iterator[str]:
        """An allocation is set or cleared; reservations need one, and a claim that lives."""
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
