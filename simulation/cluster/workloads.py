"""Workloads, ledgers, claims and Pods, as users of a simulated cluster make them and tests look at them."""

from __future__ import annotations

from typing import Any

from informers.api import ObjectKey
from ledger.names import MANAGED_LABEL, MANAGED_VALUE
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.apiserver.server import ApiServer


def workload(
    name: str, *, shared: bool = True, memory: str = "20Gi", devices: int = 0, **spec: object
) -> Document:
    """A Workload: a full fine-tuning trainer that shares, unless told otherwise."""
    accelerator: dict[str, object] = {"memory": memory}
    if devices:
        accelerator |= {"mode": "MultiGPU", "devices": devices}
    requests = {"memory": "1Gi", "cpu": "100m"}
    container = {"name": "worker", "image": "worker:1", "resources": {"requests": requests}}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": name},
        "spec": {
            "role": "trainer",
            "modelID": "model",
            "trainingKind": "fft" if shared else "lora",
            "exclusive": not shared,
            "accelerator": accelerator,
            "template": {"spec": {"containers": [container]}},
            **spec,
        },
    }


def worker_pod_name(workload_name: str) -> str:
    """The name that the contract gives to a worker's Pod; written out, as a witness has to."""
    return f"orw-{workload_name}"


class WorkloadClient:
    """The objects of one workers' namespace. Everything returned is a copy."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server = server
        self.namespace = namespace

    def __repr__(self) -> str:
        return f"<OpenRL namespace={self.namespace} workloads={len(self.statuses())}>"

    def submit(self, *workloads: Document) -> None:
        """Create Workloads."""
        for each in workloads:
            self._server.create(WORKLOADS, self.namespace, each)

    def delete(self, name: str) -> None:
        """Ask for the deletion of a Workload."""
        self._server.delete(WORKLOADS, name, self.namespace)

    def get(self, name: str) -> Document | None:
        """A Workload, `None` if there is none."""
        return self._server.document(WORKLOADS, name, self.namespace)

    def status(self, name: str) -> dict[str, Any]:
        """The status of a Workload, empty before the first write and for one that is gone."""
        return dict((self.get(name) or {}).get("status") or {})

    def statuses(self) -> dict[str, dict[str, Any]]:
        """The status of every Workload by name."""
        found = self._server.documents(WORKLOADS, self.namespace)
        return {w["metadata"]["name"]: dict(w.get("status") or {}) for w in found}

    def in_phase(self, phase: str) -> list[str]:
        """The names of the Workloads in a phase, sorted."""
        return [name for name, status in self.statuses().items() if status.get("phase") == phase]

    def ledgers(self) -> list[Document]:
        """All ledgers."""
        return self._server.documents(LEDGERS, self.namespace)

    def claims(self) -> list[Document]:
        """The claims that carry our label."""
        found = self._server.documents(CLAIMS, self.namespace)
        return [c for c in found if (c["metadata"].get("labels") or {}).get(MANAGED_LABEL) == MANAGED_VALUE]

    def pods(self) -> list[Document]:
        """All Pods of the namespace."""
        return self._server.documents(PODS, self.namespace)

    def pod(self, workload_name: str) -> Document | None:
        """The Pod of a Workload."""
        return self._server.document(PODS, worker_pod_name(workload_name), self.namespace)

    def pod_key(self, workload_name: str) -> ObjectKey:
        """Where the Pod of a Workload is."""
        return ObjectKey(self.namespace, worker_pod_name(workload_name))

    def seats(self) -> dict[str, list[str]]:
        """The names of the workers seated on each claim."""
        return {
            ledger["spec"]["claimName"]: [seat["workload"] for seat in ledger["spec"].get("seats", [])]
            for ledger in self.ledgers()
        }

    def is_empty(self) -> bool:
        """Whether no Workload, Pod, claim or ledger is left."""
        return not (self.statuses() or self.pods() or self.claims() or self.ledgers())
