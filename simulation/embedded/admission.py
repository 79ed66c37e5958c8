"""The warnings of the admission policy `openrl-workload-advice`, which is part of the manifests."""

from __future__ import annotations

from collections.abc import Iterator

from simulation.apiserver.documents import Document

WORKERS_LABEL = "openrl.io/workers"
ADVICE = "openrl-workload-advice"
_FIELDS = ("mode", "type", "memory", "devices", "attributes")


def warnings(workload: Document, namespace: Document) -> Iterator[str]:
    """Yield the warnings about a new Workload in the order of the policy's validations."""
    for message in _messages(workload, namespace):
        yield f"Validation failed for ValidatingAdmissionPolicy '{ADVICE}' with binding '{ADVICE}': {message}"


def _messages(workload: Document, namespace: Document) -> Iterator[str]:
    spec, labels = workload["spec"], namespace["metadata"].get("labels") or {}
    if unknown := ", ".join(name for name in spec["accelerator"] if name not in _FIELDS):
        yield f"spec.accelerator: unknown field {unknown}"
    if spec["accelerator"]["mode"] == "MultiGPU" and not spec["exclusive"]:
        yield "spec.exclusive: false has no effect with mode MultiGPU: such a worker never shares"
    if labels.get(WORKERS_LABEL) != "true":
        yield f"metadata.namespace: no label {WORKERS_LABEL}=true: a controller may not serve this namespace"
