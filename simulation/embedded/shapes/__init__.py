"""Field types of the built-in kinds, as far as code here reads the fields.

A real server decodes every object into typed structures and refuses mismatches with 400, so that no component
ever reads, say, a string where a list of taints belongs. A null field counts as absent. Fields that are not
declared here may hold anything. Custom kinds are validated by their schemas instead.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from simulation.apiserver import kinds
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind
from simulation.embedded.shapes.base import KubernetesObject
from simulation.embedded.shapes.devices import Claim, DeviceClass, Slice
from simulation.embedded.shapes.others import Event, Lease, Node
from simulation.embedded.shapes.pods import Pod

_SHAPES: Mapping[Kind, type[KubernetesObject]] = {
    kinds.PODS: Pod,
    kinds.NODES: Node,
    kinds.CLAIMS: Claim,
    kinds.SLICES: Slice,
    kinds.DEVICE_CLASSES: DeviceClass,
    kinds.LEASES: Lease,
    kinds.EVENTS: Event,
}


def check(document: Document, kind: Kind) -> None:
    """Raise `msgspec.ValidationError` if an object does not match the types of its kind."""
    msgspec.convert(document, _SHAPES.get(kind, KubernetesObject))
