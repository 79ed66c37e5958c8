"""The conditions of a seat by name, in the order in which they are looked at.

Contract §3, "Select a seat". A claim fails with the first condition that it does not meet; the
same names serve the index, the sentence of a waiting worker and the report on demand.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class JoinCheck(Enum):
    """Why a claim cannot be joined by a worker."""

    NOT_SHAREABLE = "the worker is exclusive or needs several devices"

    # Properties of the claim alone, whoever asks.
    UNALLOCATED = "the claim is not allocated"
    ENDING = "the claim is terminating or its ledger is gone"
    ADMIN_ACCESS = "the allocation is for administrative access and holds no device"
    NOT_ONE_DEVICE = "the claim does not hold exactly one device"
    NODE_UNKNOWN = "the claim's node is not enabled or not known"
    DEVICE_UNKNOWN = "no complete pool lists the claim's device with its memory"
    NO_SEATS = "nobody is seated on the claim"
    EXCLUSIVE = "an exclusive worker holds the claim"
    DEVICE_TAINTED = "the device has a taint that the claim does not tolerate"

    # Properties of the node, as this worker sees it.
    ROLE_REFUSED = "the node does not accept the role"
    NODE_NOT_READY = "the node is not ready"
    NODE_CORDONED = "the node is cordoned"
    NODE_TAINTED = "the node has a taint that the template does not tolerate"

    # The worker against what is left.
    DEVICE_TOO_SMALL = "the device is too small"
    SEAT_LIMIT = "the claim is at its seat limit"
    HOST_MEMORY = "the node has too little host memory left"
    HOST_CPU = "the node has too little CPU left"
    HOST_PODS = "the node has no Pod slot left"
    ALREADY_SEATED = "the worker is already on the claim"
    REFUSED = "the claim has just refused this worker"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A claim and the first condition that it fails for a worker; None: it can be joined."""

    claim: str
    node: str
    check: JoinCheck | None
