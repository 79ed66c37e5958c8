"""The types of what is inside objects of the built-in kinds, as far as anybody here looks at them.

A real server decodes every object into typed structures and refuses with 400 what does not fit, so that no
component ever meets, say, a list of taints that is a word. A field that is null counts as absent; fields that
are not named here may hold anything. Custom kinds are judged by their schemas instead.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from simulation.apiserver import kinds
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind
from simulation.embedded.shapes.base import Outline
from simulation.embedded.shapes.devices import Claim, DeviceClass, Slice
from simulation.embedded.shapes.others import Event, Lease, Node
from simulation.embedded.shapes.pods import Pod

_SHAPES: Mapping[Kind, type[Outline]] = {
    kinds.PODS: Pod,
    kinds.NODES: Node,
    kinds.CLAIMS: Claim,
    kinds.SLICES: Slice,
    kinds.DEVICE_CLASSES: DeviceClass,
    kinds.LEASES: Lease,
    kinds.EVENTS: Event,
}


def check(document: Document, kind: Kind) -> None:
    """Raise `msgspec.ValidationError` for an object that does not have the shape of its kind."""
    msgspec.convert(document, _SHAPES.get(kind, Outline))
