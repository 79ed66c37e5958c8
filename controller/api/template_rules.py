"""Validation of `spec.template` (contract §2.1).

The CRD rejects some of these templates at admission. The controller checks again, because running clusters
hold objects that earlier schemas admitted. `controller.api.workload` has already removed nulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.api.names import GROUP_ENV, SERVICE_ACCOUNT

_FORBIDDEN_POD_FIELDS = ("nodeName", "nodeSelector", "affinity", "resourceClaims")


class InvalidTemplateError(ValueError):
    """A violation. The text starts with the path of the field."""


def check_template(template: Mapping[str, Any], *, worker_container: str) -> None:
    """Raise `InvalidTemplateError` for the first violation."""
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        raise InvalidTemplateError("template.spec: is required")
    metadata = _object("template.metadata", template.get("metadata", {}))
    for field in ("labels", "annotations"):
        _object(f"template.metadata.{field}", metadata.get(field, {}))
    for field in _FORBIDDEN_POD_FIELDS:
        if spec.get(field):
            raise InvalidTemplateError(f"template.spec.{field}: is decided by placement and must not be set")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(_list(f"template.spec.{field}", spec.get(field, ()))):
            _check_container(f"template.spec.{field}[{index}]", container)
    if worker_container not in [container.get("name") for container in spec.get("containers", ())]:
        raise InvalidTemplateError(
            f"template.spec.containers: none is named {worker_container!r} (spec.workerContainerName)"
        )
    for field in ("serviceAccountName", "serviceAccount"):
        if spec.get(field) == SERVICE_ACCOUNT:
            raise InvalidTemplateError(
                f"template.spec.{field}: {SERVICE_ACCOUNT!r} belongs to the controller and must not be used"
            )


def _check_container(path: str, document: object) -> None:
    container = _object(path, document)
    resources = _object(f"{path}.resources", container.get("resources", {}))
    if resources.get("claims"):
        raise InvalidTemplateError(f"{path}.resources.claims: is decided by placement and must not be set")
    for kind in ("requests", "limits"):
        for name in _object(f"{path}.resources.{kind}", resources.get(kind, {})):
            if "/" in name:
                raise InvalidTemplateError(
                    f"{path}.resources.{kind}: {name} must not be requested in addition to a claim"
                )
    for index, variable in enumerate(_list(f"{path}.env", container.get("env", ()))):
        if _object(f"{path}.env[{index}]", variable).get("name") == GROUP_ENV:
            raise InvalidTemplateError(
                f"{path}.env: {GROUP_ENV} belongs to the controller and must not be set"
            )


def _object(path: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidTemplateError(f"{path}: must be an object")
    return value


def _list(path: str, value: object) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidTemplateError(f"{path}: must be a list")
    return value
