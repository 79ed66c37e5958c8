"""Validation of `spec.template` (contract §2.1).

The CRD rejects some of these templates at admission. The controller checks again, because running clusters
hold objects that earlier schemas admitted. `controller.api.workload` has already removed nulls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controller.api.names import GROUP_ENV, SERVICE_ACCOUNT

FORBIDDEN_POD_FIELDS = ("nodeName", "nodeSelector", "affinity", "resourceClaims")


def template_fault(template: Mapping[str, Any], *, worker_container: str) -> str:
    """Return the first violation, with the field's path; empty for a valid template."""
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        return "template.spec: is required"
    for faults in (
        _metadata_faults(template.get("metadata")),
        _forbidden_fields(spec),
        _container_faults(spec),
        _worker_faults(spec, worker_container),
        _service_account_faults(spec),
    ):
        fault = next(faults, "")
        if fault:
            return fault
    return ""


def _metadata_faults(metadata: object) -> Iterator[str]:
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        yield "template.metadata: must be an object"
        return
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field, {}), Mapping):
            yield f"template.metadata.{field}: must be an object"


def _forbidden_fields(spec: Mapping[str, Any]) -> Iterator[str]:
    for field in FORBIDDEN_POD_FIELDS:
        if spec.get(field):
            yield f"template.spec.{field}: is decided by placement and must not be set"


def _container_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    for field in ("containers", "initContainers"):
        containers = spec.get(field, ())
        if not isinstance(containers, Sequence) or isinstance(containers, str):
            yield f"template.spec.{field}: must be a list"
            return
        for index, container in enumerate(containers):
            yield from _one_container(f"template.spec.{field}[{index}]", container)


def _one_container(path: str, container: object) -> Iterator[str]:
    if not isinstance(container, Mapping):
        yield f"{path}: must be an object"
        return
    yield from _resource_faults(f"{path}.resources", container.get("resources", {}))
    yield from _variable_faults(f"{path}.env", container.get("env", ()))


def _resource_faults(path: str, resources: object) -> Iterator[str]:
    if not isinstance(resources, Mapping):
        yield f"{path}: must be an object"
        return
    if resources.get("claims"):
        yield f"{path}.claims: is decided by placement and must not be set"
    for kind in ("requests", "limits"):
        amounts = resources.get(kind, {})
        if not isinstance(amounts, Mapping):
            yield f"{path}.{kind}: must be an object"
            return
        for name in amounts:
            if "/" in name:
                yield f"{path}.{kind}: {name} must not be requested in addition to a claim"


def _variable_faults(path: str, variables: object) -> Iterator[str]:
    if not isinstance(variables, Sequence) or isinstance(variables, str):
        yield f"{path}: must be a list"
        return
    for index, variable in enumerate(variables):
        if not isinstance(variable, Mapping):
            yield f"{path}[{index}]: must be an object"
        elif variable.get("name") == GROUP_ENV:
            yield f"{path}: {GROUP_ENV} is set by the controller and must not be given"


def _worker_faults(spec: Mapping[str, Any], worker_container: str) -> Iterator[str]:
    names = [c.get("name") for c in spec.get("containers", ())]
    if worker_container not in names:
        yield f"template.spec.containers: none is named {worker_container!r} (spec.workerContainerName)"


def _service_account_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    for field in ("serviceAccountName", "serviceAccount"):
        if spec.get(field) == SERVICE_ACCOUNT:
            yield f"template.spec.{field}: {SERVICE_ACCOUNT!r} belongs to the controller and must not be used"
