"""What a worker's Pod requires from its node, read from the Pod.

The template is not enough: defaults, webhooks and policies add requests, overhead, tolerations, node
selectors and affinity. Our own affinity terms are left out, because the fleet checks the same conditions
itself.
"""

from __future__ import annotations

import msgspec

from controller.api import convert, core
from controller.api.pods import effective_request_of
from controller.api.worker_pod_document import node_affinity
from placement.types import NodeRequirement, NodeTerm, PodNeeds

_NAME_FIELD = "metadata.name"


def needs_of(pod: core.Pod, role: str) -> PodNeeds:
    """Return what the Pod of a worker with this role needs of its node."""
    return PodNeeds(
        host=effective_request_of(pod),
        tolerations=convert.lasting_tolerations(pod.spec.tolerations),
        node_terms=_node_terms(pod.spec, role),
    )


def _node_terms(spec: core.PodSpec, role: str) -> tuple[NodeTerm, ...]:
    """Return the terms of node selector and required affinity, empty if the Pod has only ours.

    If somebody else changed a term, all terms are kept unchanged: one of them must match.
    """
    required = spec.affinity.node_affinity.required
    terms = () if required is None else _without_pin(tuple(map(_term, required.node_selector_terms)))
    ours = msgspec.convert(node_affinity(role, ()), core.NodeAffinity).required
    if ours is not None and terms == tuple(map(_term, ours.node_selector_terms)):
        terms = ()
    labels = tuple(NodeRequirement(key, "In", (value,)) for key, value in sorted(spec.node_selector.items()))
    if not labels:
        return terms
    return tuple((*term, *labels) for term in terms) or (labels,)


def _term(term: core.NodeSelectorTerm) -> NodeTerm:
    return (
        *(NodeRequirement(r.key, r.operator, r.values) for r in term.match_expressions),
        *(NodeRequirement(r.key, r.operator, r.values, is_name=True) for r in term.match_fields),
    )


def _without_pin(terms: tuple[NodeTerm, ...]) -> tuple[NodeTerm, ...]:
    """Remove the requirement by which a Pod must run on the node of its claim: it is not a need."""
    pins = [
        {r for r in term if (r.key, r.operator, len(r.values), r.is_name) == (_NAME_FIELD, "In", 1, True)}
        for term in terms
    ]
    pin = set.intersection(*pins) if pins else set()
    left = tuple(tuple(r for r in term if r not in pin) for term in terms)
    return left if all(left) else ()
