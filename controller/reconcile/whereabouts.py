"""Where a worker is and what it occupies, by the allocation of its claim."""

from __future__ import annotations

from controller import translate
from controller.reconcile.tools import Tools
from controller.status import Facts
from controller.workload import Workload


def whereabouts(tools: Tools, workload: Workload, memory_per_device: str, *, pod_name: str = "") -> Facts:
    """The facts that ride along with a status write. A claim that lost its allocation is on no node."""
    claim = tools.claim(workload.status.claim_name)
    allocation = claim.status.allocation if claim is not None else None
    return Facts(
        pod_name=pod_name,
        node_name=translate.claim_node(claim) if claim is not None else "",
        device_count=len(allocation.devices.results) if allocation is not None else 0,
        memory_per_device=memory_per_device,
    )
