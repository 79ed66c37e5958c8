"""Node filters other than devices: cordon, taints, affinity, host ports, resources, and anti-affinity.

The reasons are kube-scheduler's own texts; the first plugin that rejects a node gives the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from controller.api import convert, core
from controller.api.pods import PODS, effective_request_of
from placement.quantity import parse_bytes, parse_millis
from placement.tolerations import untolerated
from placement.types import Amounts, Taint, TaintEffect
from simulation.apiserver.documents import Document, Record

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
FINAL_PHASES = ("Succeeded", "Failed")

NOTHING_ASSUMED: Mapping[str, str] = {}

DISK = "ephemeral-storage"
NO_FREE_PORT = "node(s) didn't have free ports for the requested pod ports"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
RESOURCE_REASONS = (
    "Insufficient cpu",
    "Insufficient memory",
    f"Insufficient {DISK}",
    "Too many pods",
    NO_FREE_PORT,
    ANTI_AFFINITY,
)
"""The reasons that the end of another Pod can remove."""


@dataclass
class Use:
    """What a node's Pods use: the sum of their requests, their host ports, and their labels."""

    memory_bytes: int = 0
    cpu_millis: int = 0
    pods: int = 0
    disk_bytes: int = 0
    host_ports: set[int] = field(default_factory=set)
    labels: list[Mapping[str, str]] = field(default_factory=list)

    def add(self, amounts: Amounts) -> None:
        """Add the requests of one Pod."""
        self.memory_bytes += amounts.memory_bytes or 0
        self.cpu_millis += amounts.cpu_millis
        self.pods += 1

    def add_pod(self, pod: Record) -> None:
        """Add all that a Pod uses."""
        self.add(request_of(pod))
        self.disk_bytes += _disk_of(pod.document)
        self.host_ports |= _host_ports_of(pod.document)
        self.labels.append(pod.metadata.get("labels") or {})


def request_of(pod: Record) -> Amounts:
    """Return the effective request of a Pod."""
    return effective_request_of(PODS.decode(pod.data))


def uses(pods: Iterable[Record], assumed: Mapping[str, str] = NOTHING_ASSUMED) -> dict[str, Use]:
    """Return what the bound, unfinished Pods of each node use.

    `assumed` maps the UIDs of Pods that are about to be bound to their nodes; these Pods count as bound.
    """
    totals: dict[str, Use] = {}
    for pod in pods:
        node = pod.document["spec"].get("nodeName") or assumed.get(pod.uid)
        if node and pod.document["status"].get("phase") not in FINAL_PHASES:
            totals.setdefault(node, Use()).add_pod(pod)
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
    if _host_ports_of(pod) & use.host_ports:
        yield NO_FREE_PORT
        return
    shortages = list(_shortages(pod, request, node, use))
    yield from shortages
    if not shortages and _is_kept_apart(pod["spec"], use):
        yield ANTI_AFFINITY


def _shortages(pod: Document, request: Amounts, node: Record, use: Use) -> Iterator[str]:
    allocatable = node.document.get("status", {}).get("allocatable") or {}
    yield from _resource_shortages(allocatable, request, use)
    disk_bytes = _disk_of(pod)
    if disk_bytes and use.disk_bytes + disk_bytes > parse_bytes(allocatable.get(DISK, "0")):
        yield f"Insufficient {DISK}"


def _containers(pod: Document) -> Iterator[Document]:
    """Yield the containers that run side by side: plain ones and sidecars."""
    yield from pod["spec"].get("containers") or ()
    for container in pod["spec"].get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container


def _disk_of(pod: Document) -> int:
    return sum(
        parse_bytes((container.get("resources") or {}).get("requests", {}).get(DISK, "0"))
        for container in _containers(pod)
    )


def _host_ports_of(pod: Document) -> set[int]:
    return {
        port["hostPort"]
        for container in _containers(pod)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def _is_kept_apart(spec: Document, use: Use) -> bool:
    """Return whether the Pod's required anti-affinity, per node and by labels, matches a Pod of the node."""
    terms = ((spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    selectors = [term["labelSelector"].get("matchLabels") or {} for term in terms or ()]
    return any(
        all(labels.get(key) == value for key, value in selector.items())
        for selector in selectors
        for labels in use.labels
    )


def fits(pod: Document, request: Amounts, node: Record, use: Use) -> bool:
    """Return whether the node has ports and resources for one more Pod."""
    free = not _host_ports_of(pod) & use.host_ports and not _is_kept_apart(pod["spec"], use)
    return free and not any(_shortages(pod, request, node, use))


def fits_when_empty(pod: Document, request: Amounts, node: Record) -> bool:
    """Return whether the Pod would fit if the node ran no other."""
    return fits(pod, request, node, Use())


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
