"""Names, labels and environment variables that other OpenRL components depend on (contract §2.3).

`ledger.claim_names` holds those of claims and ledgers.
"""

from __future__ import annotations

import hashlib
import re

from ledger.claim_names import CLAIM_LABEL

FINALIZER = "openrl.io/placement"
LEADER_LEASE = "placement.openrl.io"
SERVICE_ACCOUNT = "open-rl-scheduler"

WORKLOAD_ANNOTATION = "openrl.io/workload"
"""Name and UID of a Pod's Workload, as `name/UID`. It stays if the owner reference is removed."""

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

_POD_PREFIX = "orw-"
_POD_NAME_MAX = 253
_POD_NAME_KEPT = 245
_LABEL_MAX = 63


def role_node_label(role: str) -> str:
    """Return the node label that offers a node to one role."""
    return f"openrl.io/{role}"


def is_pod_name(name: str) -> bool:
    """Return whether a worker Pod could have this name."""
    return name.startswith(_POD_PREFIX)


def pod_name(workload: str) -> str:
    """Return the name of a worker's Pod. A long name is truncated and gets a digest of the full name."""
    name = _POD_PREFIX + workload
    if len(name) <= _POD_NAME_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:7]
    return f"{name[:_POD_NAME_KEPT].rstrip('-.')}-{digest}"


def label_text(text: str) -> str:
    """Reduce free text to a label value. Labels serve people and selectors, not identity."""
    lowered = re.sub(r"[A-Z]", lambda letter: letter.group().lower(), text)
    dashed = re.sub(r"[^a-z0-9-]+", "-", lowered).strip("-")
    return dashed[:_LABEL_MAX].strip("-")


def pod_labels(*, workload: str, owner_key: str, role: str, claim: str) -> dict[str, str]:
    """Return the controller's labels for a worker Pod. They override those of the template."""
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
