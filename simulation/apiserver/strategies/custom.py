"""Workloads and ClaimLedgers, as far as their CustomResourceDefinitions are felt by their writers.

Source: `manifests/crds`. Rules that no writer of ours can meet are left out; the parity cases hold the rest
against the real thing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulation.apiserver.documents import Document
from simulation.apiserver.strategies.base import Strategy, one_of, prune, required

_SPEC_FIELDS = (
    "role",
    "modelID",
    "ownerID",
    "trainingKind",
    "exclusive",
    "accelerator",
    "workerContainerName",
    "template",
)
_REQUIRED = ("role", "modelID", "accelerator", "template")
_FORBIDDEN_IN_TEMPLATE = ("nodeName", "nodeSelector", "affinity", "resourceClaims")
_MIN_DEVICES = 2
_PHASES = ("Pending", "Placing", "Running", "Succeeded", "Failed")


class WorkloadStrategy(Strategy):
    """The Workload: defaults, an immutable spec, a template that leaves placement to us."""

    def default(self, document: Document, *, strict: bool = False) -> None:
        """Fill in the defaults of the schema, and prune the spec."""
        prune(document, ("apiVersion", "kind", "metadata", "spec", "status"), "", strict=strict)
        spec = document.get("spec")
        if not isinstance(spec, dict):
            return
        prune(spec, _SPEC_FIELDS, "spec", strict=strict)
        spec.setdefault("exclusive", True)
        spec.setdefault("workerContainerName", "worker")
        accelerator = spec.get("accelerator")
        if isinstance(accelerator, dict):
            accelerator.setdefault("mode", "SingleGPU")
            accelerator.setdefault("type", "GPU")

    def faults(self, document: Document) -> Iterator[str]:
        """The rules on one version of the spec."""
        spec = document.get("spec")
        if not isinstance(spec, dict):
            yield "spec: Required value"
            return
        missing = list(required(spec, _REQUIRED, "spec"))
        if missing:
            yield from missing
            return
        yield from one_of(spec, "role", ("trainer", "sampler"), "spec")
        yield from one_of(spec, "trainingKind", ("fft", "lora"), "spec")
        yield from _accelerator_faults(spec["accelerator"])
        yield from _template_faults(spec["template"])

    def update_faults(self, old: Document, new: Document) -> Iterator[str]:
        """The spec never changes, but for labels and annotations of the template."""
        if _immutable_part(old) != _immutable_part(new):
            yield "spec: Invalid value: is immutable after creation"
        yield from self.faults(new)

    def status_faults(self, old: Document, new: Document) -> Iterator[str]:  # noqa: ARG002 - no transition rule
        """The schema of the status."""
        status = new.get("status") or {}
        yield from one_of(status, "phase", _PHASES, "status")
        for index, condition in enumerate(status.get("conditions") or ()):
            yield from required(condition, ("type",), f"status.conditions[{index}]")


def _accelerator_faults(accelerator: Document) -> Iterator[str]:
    path = "spec.accelerator"
    yield from required(accelerator, ("memory",), path)
    yield from one_of(accelerator, "mode", ("SingleGPU", "MultiGPU"), path)
    yield from one_of(accelerator, "type", ("GPU", "TPU"), path)
    several, devices = accelerator.get("mode") == "MultiGPU", accelerator.get("devices")
    if several and devices is None:
        yield f"{path}.devices: Required value: mode MultiGPU asks for an exact number of devices"
    elif devices is not None and not several:
        yield f"{path}.devices: Forbidden: only mode MultiGPU asks for several devices"
    elif devices is not None and devices < _MIN_DEVICES:
        yield f"{path}.devices: Invalid value: {devices}: should be greater than or equal to {_MIN_DEVICES}"


def _template_faults(template: Document) -> Iterator[str]:
    spec = template.get("spec")
    if not isinstance(spec, dict):
        yield "spec.template.spec: Required value"
        return
    yield from required(spec, ("containers",), "spec.template.spec")
    for name in _FORBIDDEN_IN_TEMPLATE:
        if name in spec:
            yield f"spec.template.spec.{name}: Forbidden"


def _immutable_part(document: Document) -> list[Any]:
    spec = document["spec"]
    template = spec.get("template") or {}
    return [*((name, spec.get(name)) for name in _SPEC_FIELDS if name != "template"), template.get("spec")]


class LedgerStrategy(Strategy):
    """The ClaimLedger: unknown fields survive, seats are a map by worker."""

    def prepare_create(self, document: Document) -> None:
        """Nothing is set: there is no status subresource."""

    def faults(self, document: Document) -> Iterator[str]:
        """A ledger names its claim, a seat its worker, and no worker twice."""
        spec = document.get("spec")
        if not isinstance(spec, dict):
            yield "spec: Required value"
            return
        yield from required(spec, ("claimName",), "spec")
        names: list[str] = []
        for index, seat in enumerate(spec.get("seats") or ()):
            yield from required(seat, ("workload",), f"spec.seats[{index}]")
            if seat.get("workload") in names:
                yield f"spec.seats[{index}]: Duplicate value: {seat['workload']!r}"
            names.append(seat.get("workload", ""))
