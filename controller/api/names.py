"""Names, labels, and stamps that other OpenRL components and running clusters depend on.

Contract §2.3. Those of claims and ledgers live in `ledger.names`.
"""

from __future__ import annotations

import hashlib
import re

from ledger.names import CLAIM_LABEL
from placement.types import Role

FINALIZER = "openrl.io/placement"
LEADER_LEASE = "placement.openrl.io"
SERVICE_ACCOUNT = "open-rl-scheduler"

ENABLED_LABEL = "openrl.io/enabled"
WORKER_LABEL = "openrl.io/worker"
ROLE_LABEL = "openrl.io/role"
APP_LABEL = "app"
TIMESLICER_LABEL = "accel-timeslicer"
GROUP_LABEL = "timeslice.io/group"
OWNER_LABEL = "timeslice.io/owner"
JOB_LABEL = "timeslice.io/job-id"

GROUP_ENV = "OPEN_RL_TIME_SLICE_GROUP"
LEDGER_ENV = "OPEN_RL_CLAIM_LEDGER"
ASSIGNMENT_ENV = "OPEN_RL_ASSIGNMENT_ID"

POD_CLAIM_ENTRY = "gpu"
"""Name of the Pod's entry in `spec.resourceClaims`, and of the claim's one request."""

ROLES = tuple(Role)

_POD_PREFIX = "orw-"
_POD_NAME_MAX = 253
_POD_NAME_KEPT = 245
_LABEL_MAX = 63


def role_node_label(role: str) -> str:
    """The node label that offers a node to one role."""
    return f"openrl.io/{role}"


def is_pod_name(name: str) -> bool:
    """Whether a Pod of this name may be a worker's."""
    return name.startswith(_POD_PREFIX)


def pod_name(workload: str) -> str:
    """The name of a worker's Pod; a long one is cut and made unique by a digest of the whole."""
    name = _POD_PREFIX + workload
    if len(name) <= _POD_NAME_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:7]
    return f"{name[:_POD_NAME_KEPT].rstrip('-.')}-{digest}"


def label_text(text: str) -> str:
    """Reduce free text to what a label value allows: for people and selectors, never for identity."""
    lowered = re.sub(r"[A-Z]", lambda letter: letter.group().lower(), text)
    dashed = re.sub(r"[^a-z0-9-]+", "-", lowered).strip("-")
    return dashed[:_LABEL_MAX].strip("-")


def pod_labels(*, workload: str, owner_key: str, role: str, claim: str) -> dict[str, str]:
    """The labels that we stamp on a worker Pod; they win over the template's."""
    worker = label_text(workload)
    return {
        APP_LABEL: f"open-rl-{role}-worker",
        CLAIM_LABEL: claim,
        WORKER_LABEL: worker,
        ROLE_LABEL: role,
        TIMESLICER_LABEL: "true",
        GROUP_LABEL: claim,
        OWNER_LABEL: label_text(owner_key),
        JOB_LABEL: worker,
    }
