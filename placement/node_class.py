"""Node classes: the placement properties that many nodes share.

A fleet has thousands of nodes but few classes. Role, readiness, cordon and taints are checked once per class,
so an unsuitable node never causes work for its claims.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.tolerations import blocking, untolerated
from placement.types import JoinCheck, Node, PlacementRequest, Role, Taint


@dataclass(frozen=True, slots=True)
class NodeClass:
    """The properties of an enabled node, except for its name and its free resources."""

    roles: frozenset[Role]
    ready: bool
    cordoned: bool
    taints: tuple[Taint, ...]
    """Blocking taints only, sorted."""

    @classmethod
    def of(cls, node: Node) -> NodeClass:
        """Return the class of a node."""
        taints = sorted(blocking(node.taints), key=lambda taint: (taint.key, taint.value, taint.effect.value))
        return cls(roles=node.roles, ready=node.ready, cordoned=node.cordoned, taints=tuple(taints))

    def check(self, request: PlacementRequest) -> JoinCheck | None:
        """Return the first condition that these nodes fail for this worker, None if they accept it."""
        if request.role not in self.roles:
            return JoinCheck.ROLE_REFUSED
        if not self.ready:
            return JoinCheck.NODE_NOT_READY
        if self.cordoned:
            return JoinCheck.NODE_CORDONED
        if untolerated(self.taints, request.tolerations):
            return JoinCheck.NODE_TAINTED
        return None
