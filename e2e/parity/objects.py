"""The objects of the cases, and the fields that are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from informers.api import Resource
from informers.client.decoding import Identity

Document = dict[str, Any]
OPENRL = "openrl.io"
DRA = "resource.k8s.io"


@dataclass(frozen=True)
class RawObject:
    """An object with all its fields."""

    metadata: Identity
    document: Document


AnyResource = Resource[RawObject]


def _decode(data: bytes) -> RawObject:
    document = msgspec.json.decode(data)
    return RawObject(msgspec.convert(document["metadata"], Identity), document)


def _raw(group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource[RawObject]:
    def decode(data: bytes) -> RawObject:
        decoded = _decode(data)
        # Items in lists of built-in kinds have no kind.
        decoded.document.setdefault("kind", kind)
        return decoded

    return Resource(group, version, plural, kind, namespaced, decode)


WORKLOADS = _raw(OPENRL, "v1alpha1", "workloads", "Workload")
LEDGERS = _raw(OPENRL, "v1alpha1", "claimledgers", "ClaimLedger")
NAMESPACES = _raw("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = _raw("", "v1", "pods", "Pod")
NODES = _raw("", "v1", "nodes", "Node", namespaced=False)
CLAIMS = _raw(DRA, "v1", "resourceclaims", "ResourceClaim")
SLICES = _raw(DRA, "v1", "resourceslices", "ResourceSlice", namespaced=False)
DEVICE_CLASSES = _raw(DRA, "v1", "deviceclasses", "DeviceClass", namespaced=False)
LEASES = _raw("coordination.k8s.io", "v1", "leases", "Lease")
ADMISSION = "admissionregistration.k8s.io"
POLICIES = _raw(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
POLICY_BINDINGS = _raw(
    ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)
WEBHOOKS = _raw(
    ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
QUOTAS = _raw("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGES = _raw("", "v1", "limitranges", "LimitRange")
NOT_SERVED = _raw(OPENRL, "v1alpha1", "nothings", "Nothing")

DRIVER = "gpu.nvidia.com"


def ledger(name: str = "ledger-a", **metadata: Any) -> Document:
    """Return a ledger without seats."""
    return {"metadata": {"name": name, **metadata}, "spec": {"claimName": name.replace("ledger", "claim")}}


def workload(name: str = "worker", *, metadata: Any = None, **spec: Any) -> Document:
    """Return a Workload with only the required fields. A field set to `None` is removed."""
    expected: Document = {
        "role": "trainer",
        "modelID": "model",
        "accelerator": {"memory": "20Gi"},
        "template": {"spec": {"containers": [{"name": "worker", "image": "worker:1"}]}},
        **spec,
    }
    return {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {key: value for key, value in expected.items() if value is not None},
    }


def pod(name: str = "pod", *, metadata: Any = None, **spec: Any) -> Document:
    """Return a Pod that no scheduler handles. With `nodeName`, it is bound to a node that does not exist."""
    containers = [{"name": "worker", "image": "worker:1"}]
    expected = {"schedulerName": "nobody", "containers": containers, **spec}
    return {"metadata": {"name": name, **(metadata or {})}, "spec": expected}


def claim(name: str = "claim-a", *, alternatives: int = 1, **metadata: Any) -> Document:
    """Return a claim for one device, with alternatives."""
    subrequests = [
        {"name": f"t1x{number}", "deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}
        for number in range(alternatives)
    ]
    request = {"name": "gpu", "firstAvailable": subrequests}
    return {"metadata": {"name": name, **metadata}, "spec": {"devices": {"requests": [request]}}}


def allocation(device: str = "gpu-0") -> Document:
    """Return the allocation that kube-scheduler would write."""
    result = {"request": "gpu/t1x0", "driver": DRIVER, "pool": "nowhere", "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": ["nowhere"]}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }


def _whole(document: Document) -> Document:
    return {key: document[key] for key in ("spec", "status") if document.get(key)}


def _of_pod(document: Document) -> Document:
    spec, status = document["spec"], document["status"]
    shown: Document = {
        "containers": [
            {key: item[key] for key in ("name", "image", "resources") if item.get(key)}
            for item in spec["containers"]
        ],
        "phase": status.get("phase"),
        "restartPolicy": spec["restartPolicy"],
        "grace": spec["terminationGracePeriodSeconds"],
    }
    return shown | {key: spec[key] for key in ("nodeName", "resourceClaims") if key in spec}


def _of_namespace(document: Document) -> Document:
    return {"phase": document["status"].get("phase")}


def _of_node(document: Document) -> Document:
    spec, status = document["spec"], document["status"]
    shown: Document = {key: spec[key] for key in ("unschedulable", "taints") if key in spec}
    return shown | {key: status[key] for key in ("allocatable", "phase") if key in status}


PROJECTIONS: Mapping[str, Callable[[Document], Document]] = {
    "Workload": _whole,
    "ClaimLedger": _whole,
    "ResourceClaim": _whole,
    "Lease": _whole,
    "ResourceSlice": _whole,
    "DeviceClass": _whole,
    "Pod": _of_pod,
    "Node": _of_node,
    "Namespace": _of_namespace,
}
