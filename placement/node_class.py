"""Node classes: the placement properties that many nodes share.

A fleet has thousands of nodes but few classes. Role, readiness, cordon and taints are checked once per class,
so an unsuitable node never causes work for its claims. Labels are checked per node, and only for workers
whose Pods were given a node selector or affinity: each label may have another value on each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placement.tolerations import blocking, untolerated
from placement.types import JoinCheck, Node, NodeRequirement, NodeTerm, PlacementRequest, Role, Taint


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


def matches(terms: Sequence[NodeTerm], node: Node) -> bool:
    """Return whether a node matches one of the terms. Without terms every node matches."""
    labels = dict(node.labels)
    return not terms or any(
        all(_holds(requirement, node.name, labels) for requirement in term) for term in terms
    )


def _holds(requirement: NodeRequirement, name: str, labels: dict[str, str]) -> bool:
    """Return whether one requirement holds, by the rules of `NodeSelectorRequirement` of the core API."""
    value = name if requirement.is_name else labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(requirement.values) == 1:
            try:
                number, bound = int(value), int(requirement.values[0])
            except ValueError:
                return False
            return number > bound if requirement.operator == "Gt" else number < bound
    return False
