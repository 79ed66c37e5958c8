"""The Lease object (`coordination.k8s.io/v1`) of leader election, and the writes to it.

Times are written for people (RFC 3339, UTC, microseconds) and never read back: no wall clock decides
anything. Writes are merge patches on the version that was read. So labels, owners and unknown fields survive,
and no write overwrites a record that its writer has not read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from informers.api import Resource, micro_time
from informers.client.decoding import Identity, struct_decoder


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The record of the holder. The lease is free if the holder is absent or empty."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True, rename="camel"):
    """A lease as read from the API server."""

    metadata: Identity
    spec: LeaseSpec = LeaseSpec()

    @property
    def holder(self) -> str:
        """Identity of the holder, empty if the lease is free."""
        return self.spec.holder_identity or ""


LEASES: Resource[Lease] = Resource(
    group="coordination.k8s.io",
    version="v1",
    plural="leases",
    kind="Lease",
    namespaced=True,
    decode=struct_decoder(Lease),
)

# Duration of a released lease: nobody waits for it, but the field must be positive.
RELEASED_SECONDS = 1


def new_lease(name: str, identity: str, lease_seconds: int, now: datetime) -> dict[str, Any]:
    """Return the body that creates a lease held by `identity`."""
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": name},
        "spec": {**_claim(LeaseSpec(), identity, lease_seconds, now), "leaseTransitions": 0},
    }


def claim_patch(lease: Lease, identity: str, lease_seconds: int, now: datetime) -> dict[str, Any]:
    """Return the patch by which `identity` acquires or renews `lease`."""
    return _on_version(lease, _claim(lease.spec, identity, lease_seconds, now))


def release_patch(lease: Lease, now: datetime) -> dict[str, Any]:
    """Return the patch by which the holder releases `lease`, so that no candidate has to wait."""
    spec = {"holderIdentity": None, "leaseDurationSeconds": RELEASED_SECONDS, "renewTime": micro_time(now)}
    return _on_version(lease, spec)


def _claim(previous: LeaseSpec, identity: str, lease_seconds: int, now: datetime) -> dict[str, Any]:
    renew_time = micro_time(now)
    if renew_time == previous.renew_time:
        # Candidates detect a renewal by a change of the record, so every write must change it.
        renew_time = micro_time(now + timedelta(microseconds=1))
    spec: dict[str, Any] = {
        "holderIdentity": identity,
        "leaseDurationSeconds": lease_seconds,
        "renewTime": renew_time,
    }
    if previous.holder_identity != identity:
        spec["acquireTime"] = renew_time
        spec["leaseTransitions"] = min((previous.lease_transitions or 0) + 1, 2**31 - 1)  # the API's limit
    return spec


def _on_version(lease: Lease, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
