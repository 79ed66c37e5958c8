"""The bodies of the six writes of a dedicated placement, without any decision.

They equal those of the controller for the same worker on a fleet with one device size. A test compares every
field. Times, names and UIDs are those of the worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import Struct

from e2e.controlplane import WORKER_NAMESPACE, Object

GIB = 1 << 30
DEVICE_GIB = 80
MEMORY_GIB = 20
SHAPE_NAME = f"t1x{DEVICE_GIB}"
DRIVER = "gpu.nvidia.com"
API_VERSION = "openrl.io/v1alpha1"
FINALIZER = "openrl.io/placement"
CAPACITY = f'device.capacity["{DRIVER}"]'
SELECTOR = (
    f'"memory" in {CAPACITY} && {CAPACITY}.memory.compareTo(quantity("{MEMORY_GIB * GIB}")) >= 0'
    f' && {CAPACITY}.memory.compareTo(quantity("{DEVICE_GIB}Gi")) <= 0'
)


class Metadata(Struct, frozen=True, rename="camel"):
    """The metadata that a writer needs."""

    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0


class Template(Struct, frozen=True):
    """`spec.template` of a Workload."""

    spec: Object


class Spec(Struct, frozen=True):
    """`spec` of a Workload."""

    role: str
    template: Template


class Workload(Struct, frozen=True):
    """A Workload, or the response to its write."""

    metadata: Metadata
    spec: Spec


@dataclass(frozen=True)
class Placement:
    """The placement of one worker, with the names of its objects."""

    name: str
    uid: str
    generation: int
    role: str
    template: Object
    assignment_id: str

    @classmethod
    def of(cls, workload: Workload, assignment_id: str) -> Placement:
        """Return the dedicated placement of a Workload."""
        meta, spec = workload.metadata, workload.spec
        return cls(meta.name, meta.uid, meta.generation, spec.role, spec.template.spec, assignment_id)

    @property
    def claim(self) -> str:
        """Name of the claim."""
        return f"claim-{self.name}-{self.uid[:8]}"

    @property
    def ledger(self) -> str:
        """Name of the ledger."""
        return f"ledger-{self.name}-{self.uid[:8]}"

    @property
    def pod(self) -> str:
        """Name of the Pod."""
        return f"orw-{self.name}"

    def finalizer_patch(self, version: str) -> Object:
        """Return write 1: the finalizer."""
        meta = {"uid": self.uid, "resourceVersion": version, "finalizers": [FINALIZER]}
        return {"metadata": meta}

    def ledger_document(self) -> Object:
        """Return write 2: the ledger with the worker's seat."""
        seat = {
            "workload": self.name,
            "workloadUID": self.uid,
            "assignmentID": self.assignment_id,
            "ownerID": self.name,
            "exclusive": True,
            "hostRequest": "1Gi",
        }
        labels = {"openrl.io/managed": "true", "openrl.io/claim": self.claim}
        return {
            "apiVersion": API_VERSION,
            "kind": "ClaimLedger",
            "metadata": {"name": self.ledger, "namespace": WORKER_NAMESPACE, "labels": labels},
            "spec": {"claimName": self.claim, "seats": [seat]},
        }

    def claim_document(self, ledger_uid: str) -> Object:
        """Return write 3: the claim, owned by its ledger."""
        owner = {
            "apiVersion": API_VERSION,
            "kind": "ClaimLedger",
            "name": self.ledger,
            "uid": ledger_uid,
        }
        alternative = {
            "name": SHAPE_NAME,
            "deviceClassName": DRIVER,
            "selectors": [{"cel": {"expression": SELECTOR}}],
            "allocationMode": "ExactCount",
            "count": 1,
        }
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": self.claim,
                "namespace": WORKER_NAMESPACE,
                "labels": {"openrl.io/managed": "true"},
                "ownerReferences": [owner],
            },
            "spec": {"devices": {"requests": [{"name": "gpu", "firstAvailable": [alternative]}]}},
        }

    def placing_patch(self, version: str) -> Object:
        """Return write 4: the assignment in the Workload's status."""
        return {
            "metadata": {"resourceVersion": version, "uid": self.uid},
            "status": {
                "observedGeneration": self.generation,
                "phase": "Placing",
                "reason": f"CreatedClaim: {SHAPE_NAME}",
                "claimName": self.claim,
                "assignmentID": self.assignment_id,
                "podName": None,
                "nodeName": None,
                "deviceCount": None,
                "memoryPerDevice": f"{MEMORY_GIB}Gi",
            },
        }

    def pod_document(self) -> Object:
        """Return write 5: the Pod, for a template with one container and no environment."""
        (container,) = self.template["containers"]
        variables = {
            "OPEN_RL_TIME_SLICE_GROUP": self.claim,
            "OPEN_RL_CLAIM_LEDGER": self.ledger,
            "OPEN_RL_ASSIGNMENT_ID": self.assignment_id,
        }
        worker_container = {
            **container,
            "resources": {**container["resources"], "claims": [{"name": "gpu"}]},
            "env": [{"name": name, "value": value} for name, value in variables.items()],
        }
        owner = {
            "apiVersion": API_VERSION,
            "kind": "Workload",
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.pod,
                "namespace": WORKER_NAMESPACE,
                "labels": self._pod_labels(),
                "annotations": {"openrl.io/workload": f"{self.name}/{self.uid}"},
                "ownerReferences": [owner],
            },
            "spec": {
                **self.template,
                "containers": [worker_container],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": self.claim}],
                "affinity": {"nodeAffinity": _affinity(self.role)},
            },
        }

    def running_patch(self, version: str, node: str, now: datetime) -> Object:
        """Return write 6: the status of a running Pod."""
        placed = {
            "type": "Placed",
            "status": "True",
            "reason": "Placed",
            "message": "",
            "lastTransitionTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "observedGeneration": self.generation,
        }
        return {
            "metadata": {"resourceVersion": version, "uid": self.uid},
            "status": {
                "observedGeneration": self.generation,
                "phase": "Running",
                "reason": None,
                "podName": self.pod,
                "nodeName": node,
                "deviceCount": 1,
                "memoryPerDevice": f"{MEMORY_GIB}Gi",
                "conditions": [placed],
            },
        }

    def _pod_labels(self) -> dict[str, str]:
        return {
            "app": f"open-rl-{self.role}-worker",
            "openrl.io/claim": self.claim,
            "openrl.io/worker": self.name,
            "openrl.io/role": self.role,
            "accel-timeslicer": "true",
            "timeslice.io/group": self.claim,
            "timeslice.io/owner": self.name,
            "timeslice.io/job-id": self.name,
        }


def _affinity(role: str) -> Object:
    enabled = {"key": "openrl.io/enabled", "operator": "In", "values": ["true"]}
    accepted = {"key": f"openrl.io/{role}", "operator": "In", "values": ["true"]}
    unlabelled = [{"key": f"openrl.io/{each}", "operator": "DoesNotExist"} for each in ("trainer", "sampler")]
    terms = [{"matchExpressions": [enabled, accepted]}, {"matchExpressions": [enabled, *unlabelled]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
