"""The kinds that the server serves, with their scope and the flags in which they differ.

`simulation.apiserver.strategies` holds the behavior that is more than a flag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from informers.api import Resource

CORE = ""
DRA = "resource.k8s.io"
OPENRL = "openrl.io"


@dataclass(frozen=True)
class Kind:
    """One kind of object. `str()` returns `plural.group`, as in messages."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = True
    """Whether it has a status subresource, so that writes of status and of the rest are separate."""
    generation: bool = False
    """Whether the server counts changes to the spec in `metadata.generation`."""
    unconditional_update: bool = True
    """Whether an update may omit the resource version that it replaces."""
    returns_deleted: bool = True
    """Whether an immediate delete returns the object instead of a `Status`."""
    custom: bool = False
    """Whether a CustomResourceDefinition defines it."""
    fields: tuple[str, ...] = ()
    """The fields that field selectors support, besides name and namespace."""

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """`group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version


NAMESPACES = Kind(CORE, "v1", "namespaces", "Namespace", namespaced=False)
NODES = Kind(
    CORE,
    "v1",
    "nodes",
    "Node",
    namespaced=False,
    returns_deleted=False,
    fields=("spec.unschedulable",),
)
PODS = Kind(CORE, "v1", "pods", "Pod", generation=True, fields=("spec.nodeName", "status.phase"))
EVENTS = Kind("events.k8s.io", "v1", "events", "Event", status=False, fields=("reason", "type"))
LEASES = Kind(
    "coordination.k8s.io",
    "v1",
    "leases",
    "Lease",
    status=False,
    unconditional_update=False,
    returns_deleted=False,
)
CLAIMS = Kind(DRA, "v1", "resourceclaims", "ResourceClaim")
SLICES = Kind(
    DRA,
    "v1",
    "resourceslices",
    "ResourceSlice",
    namespaced=False,
    status=False,
    generation=True,
    fields=("spec.nodeName", "spec.driver"),
)
DEVICE_CLASSES = Kind(
    DRA, "v1", "deviceclasses", "DeviceClass", namespaced=False, status=False, generation=True
)
DEVICE_TAINT_RULES = Kind(
    DRA, "v1alpha3", "devicetaintrules", "DeviceTaintRule", namespaced=False, status=False
)
"""Written by administrators of the simulation only: no client is served this kind."""
WORKLOADS = Kind(
    OPENRL,
    "v1alpha1",
    "workloads",
    "Workload",
    generation=True,
    unconditional_update=False,
    returns_deleted=False,
    custom=True,
)
LEDGERS = Kind(
    OPENRL,
    "v1alpha1",
    "claimledgers",
    "ClaimLedger",
    status=False,
    generation=True,
    unconditional_update=False,
    returns_deleted=False,
    custom=True,
)

KINDS = (
    NAMESPACES,
    NODES,
    PODS,
    EVENTS,
    LEASES,
    CLAIMS,
    SLICES,
    DEVICE_CLASSES,
    WORKLOADS,
    LEDGERS,
)

_BY_RESOURCE = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}


def kind_of(resource: Resource[Any]) -> Kind | None:
    """Return the kind of a client's resource, or `None` if it is not served."""
    return _BY_RESOURCE.get((resource.group, resource.version, resource.plural))


def kind_named(api_version: str, kind: str) -> Kind | None:
    """Return the kind that an owner reference names, in any version, or `None`."""
    group = api_version.rpartition("/")[0]
    return next((k for k in KINDS if (k.group, k.kind) == (group, kind)), None)
