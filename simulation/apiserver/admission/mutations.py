"""Rules that change new Pods, as a LimitRange, a RuntimeClass, mutating policies and webhooks do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from simulation.apiserver.admission.chain import AdmissionRequest, Rule
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import PODS

Edit = Callable[[Document], None]


class ChangedPods(Rule):
    """A rule that edits every new Pod, or the Pods that `selects` returns true for."""

    def __init__(self, *edits: Edit, selects: Callable[[Document], bool] = lambda _pod: True) -> None:
        super().__init__(PODS)
        self._edits = edits
        self._selects = selects

    def change(self, request: AdmissionRequest) -> None:
        """Edit the Pod."""
        if self._selects(request.document):
            for edit in self._edits:
                edit(request.document)


def default_requests(**requests: str) -> Edit:
    """Set requests that a container lacks, as a LimitRange with `defaultRequest` does.

    Source: `plugin/pkg/admission/limitranger` of `k8s.io/kubernetes`. It treats init containers in the same
    way, and records what it set in an annotation.
    """

    def edit(pod: Document) -> None:
        said = []
        for kind in ("containers", "initContainers"):
            for item in pod["spec"].get(kind) or ():
                resources = item.setdefault("resources", {})
                known = resources.get("requests") or {}
                added = sorted(name for name in requests if name not in known)
                if added:
                    resources["requests"] = {**requests, **known}
                    what = "container" if kind == "containers" else "init container"
                    said.append(f"{', '.join(added)} request for {what} {item['name']}")
        if said:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations["kubernetes.io/limit-ranger"] = f"LimitRanger plugin set: {'; '.join(said)}"

    return edit


def overhead(**amounts: str) -> Edit:
    """Set the overhead of a RuntimeClass."""
    return lambda pod: pod["spec"].update(overhead=dict(amounts))


def toleration(key: str, *, effect: str = "", seconds: int | None = None) -> Edit:
    """Add a toleration of a key with any value."""
    added: Document = {"key": key, "operator": "Exists"}
    added |= {"effect": effect} if effect else {}
    added |= {"tolerationSeconds": seconds} if seconds is not None else {}
    return _append("tolerations", added)


def default_tolerations(pod: Document) -> None:
    """Add the tolerations that the plugin `DefaultTolerationSeconds` gives to every Pod."""
    for condition in ("not-ready", "unreachable"):
        toleration(f"node.kubernetes.io/{condition}", effect="NoExecute", seconds=300)(pod)


def label(name: str, value: str) -> Edit:
    """Add a label."""
    return lambda pod: pod["metadata"].setdefault("labels", {}).update({name: value})


def node_selector(added: Mapping[str, str]) -> Edit:
    """Add entries to the node selector."""
    return lambda pod: pod["spec"].setdefault("nodeSelector", {}).update(added)


def container(
    name: str, *, requests: Mapping[str, str] | None = None, ports: Sequence[int] = (), first: bool = False
) -> Edit:
    """Add a plain container, optionally with host ports, as the last or the first one."""

    def edit(pod: Document) -> None:
        added = _container(name, requests, ports)
        pod["spec"]["containers"].insert(0 if first else len(pod["spec"]["containers"]), added)

    return edit


def sidecar(name: str, *, requests: Mapping[str, str] | None = None, ports: Sequence[int] = ()) -> Edit:
    """Add a restartable init container."""
    return _append("initContainers", {**_container(name, requests, ports), "restartPolicy": "Always"})


def finalizer(name: str) -> Edit:
    """Add a finalizer."""
    return lambda pod: pod["metadata"].setdefault("finalizers", []).append(name)


def scheduling_gate(name: str) -> Edit:
    """Add a scheduling gate."""
    return _append("schedulingGates", {"name": name})


def scheduler_name(name: str) -> Edit:
    """Name another scheduler."""
    return lambda pod: pod["spec"].update(schedulerName=name)


def claim_in_front(name: str, claim: str) -> Edit:
    """Add an entry for another claim before all others."""

    def edit(pod: Document) -> None:
        entries = pod["spec"].get("resourceClaims") or []
        pod["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": claim}, *entries]

    return edit


def active_deadline(seconds: int) -> Edit:
    """Set the deadline after which the kubelet ends the Pod."""
    return lambda pod: pod["spec"].update(activeDeadlineSeconds=seconds)


def _append(field: str, item: Document) -> Edit:
    return lambda pod: pod["spec"].update({field: [*(pod["spec"].get(field) or ()), dict(item)]})


def _container(name: str, requests: Mapping[str, str] | None, ports: Sequence[int]) -> Document:
    added: Document = {"name": name, "image": f"{name}:1"}
    if requests:
        added["resources"] = {"requests": dict(requests)}
    if ports:
        added["ports"] = [{"containerPort": port, "hostPort": port} for port in ports]
    return added
