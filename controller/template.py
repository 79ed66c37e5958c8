"""The rules for `spec.template`: what a tenant's Pod template may not hold (section 2.1 of the contract).

The CRD refuses part of it at admission; it is checked here again because running clusters hold objects
that were admitted under other schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controller.names import GROUP_ENV, SERVICE_ACCOUNT

FORBIDDEN_POD_FIELDS = ("nodeName", "nodeSelector", "affinity", "resourceClaims")


def template_fault(template: Mapping[str, Any], *, worker_container: str) -> str:
    """The first rule that the template breaks, as a sentence that names the field; empty if it is fine."""
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        return "template.spec: is required"
    for faults in (
        _forbidden_fields(spec),
        _container_faults(spec),
        _worker_faults(spec, worker_container),
        _service_account_faults(spec),
    ):
        fault = next(faults, "")
        if fault:
            return fault
    return ""


def _forbidden_fields(spec: Mapping[str, Any]) -> Iterator[str]:
    for field in FORBIDDEN_POD_FIELDS:
        if spec.get(field):
            yield f"template.spec.{field}: is decided by placement and must not be set"


def _container_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    for field in ("containers", "initContainers"):
        containers = spec.get(field) or ()
        if not isinstance(containers, Sequence) or isinstance(containers, str):
            yield f"template.spec.{field}: must be a list"
            return
        for index, container in enumerate(containers):
            yield from _one_container(f"template.spec.{field}[{index}]", container)


def _one_container(path: str, container: object) -> Iterator[str]:
    if not isinstance(container, Mapping):
        yield f"{path}: must be an object"
        return
    resources = container.get("resources") or {}
    if not isinstance(resources, Mapping):
        yield f"{path}.resources: must be an object"
        return
    if resources.get("claims"):
        yield f"{path}.resources.claims: is decided by placement and must not be set"
    for kind in ("requests", "limits"):
        for name in resources.get(kind) or ():
            if "/" in str(name):
                yield f"{path}.resources.{kind}: {name} must not be asked for beside a claim"
    for variable in container.get("env") or ():
        if isinstance(variable, Mapping) and variable.get("name") == GROUP_ENV:
            yield f"{path}.env: {GROUP_ENV} is set by the controller and must not be given"


def _worker_faults(spec: Mapping[str, Any], worker_container: str) -> Iterator[str]:
    names = [c.get("name") for c in spec.get("containers") or ()]
    if worker_container not in names:
        yield f"template.spec.containers: none is named {worker_container!r} (spec.workerContainerName)"


def _service_account_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    for field in ("serviceAccountName", "serviceAccount"):
        if spec.get(field) == SERVICE_ACCOUNT:
            yield f"template.spec.{field}: {SERVICE_ACCOUNT!r} is the controller's own and must not be used"
