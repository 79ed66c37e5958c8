"""What nodes have in common for a decision: everything about a node but its name and what is free there.

Fleets have thousands of nodes and a handful of classes. Role, readiness, cordon and taints are judged once
per class, so that a node that is out of the question never costs a look at its claims.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.tolerations import blocking, untolerated
from placement.types import JoinCheck, Node, PlacementRequest, Role, Taint


@dataclass(frozen=True, slots=True)
class NodeClass:
    """The decisive properties of an enabled node."""

    roles: frozenset[Role]
    ready: bool
    cordoned: bool
    taints: tuple[Taint, ...]
    """Only those that block, in a fixed order."""

    @classmethod
    def of(cls, node: Node) -> NodeClass:
        """The class of a node."""
        taints = sorted(blocking(node.taints), key=lambda taint: (taint.key, taint.value, taint.effect.value))
        return cls(roles=node.roles, ready=node.ready, cordoned=node.cordoned, taints=tuple(taints))

    def accepts(self, role: Role) -> bool:
        """Whether nodes of this class take workers of the role (contract §2.4)."""
        return role in self.roles

    def check(self, request: PlacementRequest) -> JoinCheck | None:
        """Why these nodes take no new Pod of this worker, None where they do."""
        if not self.accepts(request.role):
            return JoinCheck.ROLE_REFUSED
        if not self.ready:
            return JoinCheck.NODE_NOT_READY
        if self.cordoned:
            return JoinCheck.NODE_CORDONED
        if untolerated(self.taints, request.tolerations):
            return JoinCheck.NODE_TAINTED
        return None
