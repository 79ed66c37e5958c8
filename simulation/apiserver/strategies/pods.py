"""Pods: validation, immutable fields and the grace period of deletion.

Source: `podStrategy` and `ValidatePodSpec` of `k8s.io/kubernetes`, as far as they concern worker Pods and
Pods that compete for their resources. Unknown fields are detected only in the Pod spec and in containers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from placement.quantity import parse_millis
from simulation.apiserver.documents import Document
from simulation.apiserver.refusals import bad_request
from simulation.apiserver.strategies.base import Strategy, one_of, prune, required

DEFAULT_GRACE_SECONDS = 30
FINAL_PHASES = ("Succeeded", "Failed")
GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""The condition of a new Pod with scheduling gates."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SPEC_FIELDS = _names(
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy "
    "enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname "
    "hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy "
    "priority priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName "
    "schedulerName schedulingGates securityContext serviceAccount serviceAccountName setHostnameAsFQDN "
    "shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints "
    "volumes"
)
_CONTAINER_FIELDS = _names(
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe "
    "resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce "
    "terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)
_CONTAINER_LISTS = ("containers", "initContainers")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class PodStrategy(Strategy):
    """The rules for Pods."""

    graceful = True

    def prepare_for_create(self, document: Document) -> None:
        """Set the phase Pending, and the condition of a Pod with scheduling gates."""
        document["status"] = {"phase": "Pending"}
        if document["spec"].get("schedulingGates"):
            timestamp = document["metadata"]["creationTimestamp"]
            document["status"]["conditions"] = [{**GATED, "lastTransitionTime": timestamp}]

    def default(self, document: Document, *, strict: bool = False) -> None:
        """Set the defaults that others read, and drop unknown fields, or refuse them if `strict`."""
        spec = document.setdefault("spec", {})
        _check_types(spec)
        prune(spec, _SPEC_FIELDS, "spec", strict=strict)
        for kind in _CONTAINER_LISTS:
            for index, container in enumerate(spec.get(kind) or ()):
                prune(container, _CONTAINER_FIELDS, f"spec.{kind}[{index}]", strict=strict)
                _default_requests_to_limits(container)
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)

    def validate(self, document: Document) -> Iterator[str]:
        """Require containers, each with a name, an image and valid resources, whose claims the Pod lists."""
        spec = document["spec"]
        if not spec.get("containers"):
            yield "spec.containers: Required value"
        yield from one_of(spec, "restartPolicy", ("Always", "OnFailure", "Never"), "spec")
        claims = [claim.get("name") for claim in spec.get("resourceClaims") or ()]
        names: list[str] = []
        for kind in _CONTAINER_LISTS:
            for index, container in enumerate(spec.get(kind) or ()):
                yield from _validate_container(container, f"spec.{kind}[{index}]", claims, names)

    def validate_update(self, old: Document, new: Document) -> Iterator[str]:
        """Refuse changes to the spec, except to images and tolerations, and the removal of gates."""
        if _immutable_part(old["spec"]) != _immutable_part(new["spec"]):
            yield "spec: Forbidden: pod updates may not change fields other than the image and tolerations"
        known = old["spec"].get("schedulingGates") or ()
        if any(gate not in known for gate in new["spec"].get("schedulingGates") or ()):
            yield "spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gates"

    def grace_seconds(self, document: Document) -> int:
        """Return no grace period for a Pod that is unbound or has ended."""
        if not document["spec"].get("nodeName") or document["status"].get("phase") in FINAL_PHASES:
            return 0
        return int(document["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS))


def _check_types(spec: Document) -> None:
    """Refuse values that cannot be decoded (400)."""
    for kind in _CONTAINER_LISTS:
        if not isinstance(spec.get(kind, []), list):
            raise bad_request(f"Pod in version v1 cannot be handled as a Pod: spec.{kind} is not a list")
        for container in spec.get(kind, []):
            resources = container.get("resources") or {}
            for name in ("requests", "limits"):
                for quantity in (resources.get(name) or {}).values():
                    _millis(quantity)


def _millis(quantity: str | float) -> int:
    try:
        return parse_millis(quantity)
    except ValueError as error:
        text = f"quantities must match the regular expression, not {quantity!r}"
        raise bad_request(f"Pod in version v1 cannot be handled as a Pod: {text}") from error


def _default_requests_to_limits(container: Document) -> None:
    resources = container.get("resources") or {}
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _validate_container(container: Document, path: str, claims: list[Any], names: list[str]) -> Iterator[str]:
    yield from required(container, ("name", "image"), path)
    name = container.get("name", "")
    if name and not _NAME.fullmatch(name):
        yield f"{path}.name: Invalid value: {name!r}: a lowercase RFC 1123 label is needed"
    if name in names:
        yield f"{path}.name: Duplicate value: {name!r}"
    names.append(name)
    resources = container.get("resources") or {}
    for kind in ("requests", "limits"):
        for resource, quantity in (resources.get(kind) or {}).items():
            if _millis(quantity) < 0:
                yield f"{path}.resources.{kind}[{resource}]: Invalid value: {quantity!r}"
    for index, claim in enumerate(resources.get("claims") or ()):
        if claim.get("name") not in claims:
            yield f"{path}.resources.claims[{index}]: Not found: {claim.get('name')!r}"


def _immutable_part(spec: Document) -> Document:
    containers = [
        {name: value for name, value in container.items() if name != "image"}
        for container in spec.get("containers") or ()
    ]
    return {**spec, "containers": containers, "tolerations": None, "schedulingGates": None}
