"""Workloads and ClaimLedgers: the installed schemas, and an implementation of their CEL rules.

An update is not refused for an error that the old object already had (validation ratcheting).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from placement.quantity import parse_bytes
from placement.types import MIB
from simulation.apiserver.documents import Document
from simulation.apiserver.refusals import bad_request
from simulation.apiserver.schema import read_schema
from simulation.apiserver.strategies.base import Strategy

_FORBIDDEN_IN_TEMPLATE = ("nodeName", "nodeSelector", "affinity", "resourceClaims")


class CustomStrategy(Strategy):
    """The strategy of a kind that a CustomResourceDefinition defines."""

    def __init__(self, plural: str) -> None:
        self._schema = read_schema(plural)

    def default(self, document: Document, *, strict: bool = False) -> None:
        """Set defaults, and prune unknown fields, or refuse them if `strict`."""
        unknown = list(self._schema.prune(document))
        if unknown and strict:
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            kind, version = document["kind"], document["apiVersion"].rpartition("/")[2]
            read = f'{kind} in version "{version}" cannot be handled as a {kind}'
            raise bad_request(f"{read}: strict decoding error: {listed}")
        self._schema.default(document)

    def validate(self, document: Document) -> Iterator[str]:
        """Yield schema errors."""
        return self._schema.validate(document)

    def validate_update(self, old: Document, new: Document) -> Iterator[str]:
        """Yield schema errors that the old object did not have."""
        found = list(self.validate(new))
        known = list(self.validate(old)) if found else []
        return (error for error in found if error not in known)

    def validate_status_update(self, old: Document, new: Document) -> Iterator[str]:
        """Yield schema errors that the old object did not have."""
        return CustomStrategy.validate_update(self, old, new)


class WorkloadStrategy(CustomStrategy):
    """The Workload: an immutable spec, and a template without placement fields."""

    def __init__(self) -> None:
        super().__init__("workloads")

    def validate(self, document: Document) -> Iterator[str]:
        """Yield schema errors or, if there are none, the errors of the rules on one version of the spec."""
        broken = list(super().validate(document))
        yield from broken
        if not broken:
            yield from _validate_accelerator(document["spec"]["accelerator"])
            for name in _FORBIDDEN_IN_TEMPLATE:
                if name in document["spec"]["template"]["spec"]:
                    yield f"spec.template.spec.{name}: Forbidden"

    def validate_update(self, old: Document, new: Document) -> Iterator[str]:
        """Refuse changes to the spec, except to labels and annotations of the template."""
        yield from super().validate_update(old, new)
        before, after = _immutable_part(old), _immutable_part(new)
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                value = after.get(name)
                shown = f"{json.dumps(value)}: " if isinstance(value, str | int) else ""
                yield f"spec.{name}: Invalid value: {shown}is immutable after creation"


class LedgerStrategy(CustomStrategy):
    """The ClaimLedger: unknown fields are kept, and there is no status subresource."""

    def __init__(self) -> None:
        super().__init__("claimledgers")

    def prepare_for_create(self, document: Document) -> None:
        """Set nothing."""


def _validate_accelerator(accelerator: Document) -> Iterator[str]:
    memory = json.dumps(accelerator["memory"])
    if _is_below_one_mebibyte(accelerator["memory"]):
        yield f"spec.accelerator.memory: Invalid value: {memory}: below 1Mi; write a unit, e.g. 60Gi"
    several = accelerator.get("mode") == "MultiGPU"
    if several and "devices" not in accelerator:
        yield "spec.accelerator.devices: Required value: is required with mode MultiGPU"
    elif "devices" in accelerator and not several:
        yield "spec.accelerator.devices: Forbidden: is allowed with mode MultiGPU only"


def _is_below_one_mebibyte(memory: str | int) -> bool:
    try:
        return 0 < parse_bytes(memory) < MIB
    except ValueError:
        return False


def _immutable_part(document: Document) -> dict[str, Any]:
    """Return the immutable fields: the spec, with only the Pod spec of the template. Empty if malformed."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return {}
    template = spec.get("template")
    return {**spec, "template": template.get("spec") if isinstance(template, dict) else template}
