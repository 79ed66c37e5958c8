"""Workloads and ClaimLedgers: their schemas as installed, and the rules that are written in CEL there.

A change is not held against what was wrong before and is the same now (validation ratcheting).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from simulation.apiserver.documents import Document
from simulation.apiserver.refusals import bad_request
from simulation.apiserver.schema import read_schema
from simulation.apiserver.strategies.base import Strategy

_FORBIDDEN_IN_TEMPLATE = ("nodeName", "nodeSelector", "affinity", "resourceClaims")


class CustomStrategy(Strategy):
    """A kind that a CustomResourceDefinition describes."""

    def __init__(self, plural: str) -> None:
        self._schema = read_schema(plural)

    def default(self, document: Document, *, strict: bool = False) -> None:
        """Prune, or refuse what would be pruned, and fill in the defaults."""
        unknown = list(self._schema.prune(document))
        if unknown and strict:
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise bad_request(f"strict decoding error: {listed}")
        self._schema.default(document)

    def faults(self, document: Document) -> Iterator[str]:
        """The schema."""
        return self._schema.faults(document)

    def update_faults(self, old: Document, new: Document) -> Iterator[str]:
        """The schema, where it is broken anew."""
        found = list(self.faults(new))
        known = list(self.faults(old)) if found else []
        return (fault for fault in found if fault not in known)

    def status_faults(self, old: Document, new: Document) -> Iterator[str]:
        """The schema likewise."""
        return CustomStrategy.update_faults(self, old, new)


class WorkloadStrategy(CustomStrategy):
    """The Workload: an immutable spec, and a template that leaves placement to us."""

    def __init__(self) -> None:
        super().__init__("workloads")

    def faults(self, document: Document) -> Iterator[str]:
        """The schema, and where it holds the rules on one version of the spec."""
        broken = list(super().faults(document))
        yield from broken
        if not broken:
            yield from _accelerator_faults(document["spec"]["accelerator"])
            for name in _FORBIDDEN_IN_TEMPLATE:
                if name in document["spec"]["template"]["spec"]:
                    yield f"spec.template.spec.{name}: Forbidden"

    def update_faults(self, old: Document, new: Document) -> Iterator[str]:
        """The spec never changes, but for labels and annotations of the template."""
        yield from super().update_faults(old, new)
        before, after = _immutable_part(old), _immutable_part(new)
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                value = after.get(name)
                shown = f"{json.dumps(value)}: " if isinstance(value, str | int) else ""
                yield f"spec.{name}: Invalid value: {shown}is immutable after creation"


class LedgerStrategy(CustomStrategy):
    """The ClaimLedger: unknown fields survive, and there is no status subresource."""

    def __init__(self) -> None:
        super().__init__("claimledgers")

    def prepare_create(self, document: Document) -> None:
        """Nothing is set."""


def _accelerator_faults(accelerator: Document) -> Iterator[str]:
    several = accelerator.get("mode") == "MultiGPU"
    if several and "devices" not in accelerator:
        yield "spec.accelerator.devices: Required value: mode MultiGPU asks for an exact number of devices"
    elif "devices" in accelerator and not several:
        yield "spec.accelerator.devices: Forbidden: only mode MultiGPU asks for several devices"


def _immutable_part(document: Document) -> dict[str, Any]:
    """The fields of the spec; of the template only the Pod's. Nothing of what is no object."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return {}
    template = spec.get("template")
    return {**spec, "template": template.get("spec") if isinstance(template, dict) else template}
