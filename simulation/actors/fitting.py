"""Node filters other than devices: cordon, taints, affinity, and resources.

The reasons are kube-scheduler's own texts; the first plugin that rejects a node gives the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from controller.api import convert, core
from controller.api.pods import PODS, effective_request_of
from placement.quantity import parse_bytes, parse_millis
from placement.tolerations import untolerated
from placement.types import Amounts, Taint, TaintEffect
from simulation.apiserver.documents import Document, Record

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
FINAL_PHASES = ("Succeeded", "Failed")

NOTHING_ASSUMED: Mapping[str, str] = {}

RESOURCE_REASONS = ("Insufficient cpu", "Insufficient memory", "Too many pods")
"""The reasons that the end of another Pod can remove."""


@dataclass
class Use:
    """The sum of the requests of a node's Pods."""

    memory_bytes: int = 0
    cpu_millis: int = 0
    pods: int = 0

    def add(self, amounts: Amounts) -> None:
        """Add the requests of one Pod."""
        self.memory_bytes += amounts.memory_bytes or 0
        self.cpu_millis += amounts.cpu_millis
        self.pods += 1


def request_of(pod: Record) -> Amounts:
    """Return the effective request of a Pod."""
    return effective_request_of(PODS.decode(pod.data))


def uses(pods: Iterable[Record], assumed: Mapping[str, str] = NOTHING_ASSUMED) -> dict[str, Use]:
    """Return the requests on each node of the Pods that are bound there and have not ended.

    `assumed` maps the UIDs of Pods that are about to be bound to their nodes; these Pods count as bound.
    """
    totals: dict[str, Use] = {}
    for pod in pods:
        node = pod.document["spec"].get("nodeName") or assumed.get(pod.uid)
        if node and pod.document["status"].get("phase") not in FINAL_PHASES:
            totals.setdefault(node, Use()).add(request_of(pod))
    return totals


def rejections(pod: Document, request: Amounts, node: Record, use: Use) -> Iterator[str]:
    """Yield why the node does not fit the Pod; nothing if it fits."""
    spec = node.document.get("spec") or {}
    tolerations = convert.template_tolerations(pod["spec"].get("tolerations") or [])
    if spec.get("unschedulable") and untolerated([UNSCHEDULABLE], tolerations):
        yield "node(s) were unschedulable"
        return
    taints = convert.taints(core.NODES.decode(node.data).spec.taints)
    if untolerated(taints, tolerations):
        yield "node(s) had untolerated taint(s)"
        return
    if not _matches_affinity(pod["spec"], node):
        yield "node(s) didn't match Pod's node affinity/selector"
        return
    yield from _resource_shortages(node.document.get("status", {}).get("allocatable") or {}, request, use)


def fits(request: Amounts, node: Record, use: Use) -> bool:
    """Return whether the node has resources for one more Pod."""
    return not any(
        _resource_shortages(node.document.get("status", {}).get("allocatable") or {}, request, use)
    )


def fits_when_empty(request: Amounts, node: Record) -> bool:
    """Return whether the node would have the resources if it ran no Pod."""
    return fits(request, node, Use())


def _resource_shortages(allocatable: Mapping[str, str], request: Amounts, use: Use) -> Iterator[str]:
    if use.pods + 1 > parse_bytes(allocatable.get("pods", "0")):
        yield "Too many pods"
    if request.cpu_millis and use.cpu_millis + request.cpu_millis > parse_millis(allocatable.get("cpu", "0")):
        yield "Insufficient cpu"
    memory_bytes = request.memory_bytes or 0
    if memory_bytes and use.memory_bytes + memory_bytes > parse_bytes(allocatable.get("memory", "0")):
        yield "Insufficient memory"


def preference(pod: Document, node: Record) -> int:
    """Return the total weight of the preferred node affinity terms that the node matches."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(int(term["weight"]) for term in terms if _matches(term["preference"], node))


def _matches_affinity(spec: Document, node: Record) -> bool:
    labels = node.metadata.get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or selected(required, node)


def selected(selector: Document, node: Record) -> bool:
    """Return whether any term of a node selector matches the node."""
    return any(_matches(term, node) for term in selector.get("nodeSelectorTerms") or ())


def _matches(term: Document, node: Record) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    labels = node.metadata.get("labels") or {}
    return bool(expressions or fields) and all(
        (
            *(_holds(expression, labels) for expression in expressions),
            *(_holds(field, {"metadata.name": node.key.name}) for field in fields),
        )
    )


def _holds(requirement: Document, values: Mapping[str, str]) -> bool:
    key, wanted = requirement["key"], requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return values.get(key) in wanted
        case "NotIn":
            return values.get(key) not in wanted
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
    raise ValueError(f"unsupported operator {requirement['operator']!r}")
