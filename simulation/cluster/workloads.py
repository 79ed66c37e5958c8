"""Workloads, ledgers, claims and Pods of a simulated cluster: created as users do, read as tests need."""

from __future__ import annotations

from typing import Any

from informers.api import ObjectKey
from ledger.claim_names import MANAGED_LABEL, MANAGED_VALUE
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.apiserver.server import ApiServer


def workload(
    name: str, *, shared: bool = True, memory: str = "20Gi", devices: int = 0, **spec: object
) -> Document:
    """Return a Workload; by default a full fine-tuning trainer that shares its device."""
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
    """Return the name of a worker's Pod by contract §2.3, independently of the production code."""
    return f"orw-{workload_name}"


class WorkloadClient:
    """Client for the objects of one workers' namespace. All results are copies."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server = server
        self.namespace = namespace

    def __repr__(self) -> str:
        return f"<WorkloadClient namespace={self.namespace} workloads={len(self.statuses())}>"

    def submit(self, *workloads: Document) -> None:
        """Create Workloads."""
        for each in workloads:
            self._server.create(WORKLOADS, self.namespace, each)

    def delete(self, name: str) -> None:
        """Delete a Workload."""
        self._server.delete(WORKLOADS, name, self.namespace)

    def get(self, name: str) -> Document | None:
        """Return a Workload, `None` if it does not exist."""
        return self._server.document(WORKLOADS, name, self.namespace)

    def status(self, name: str) -> dict[str, Any]:
        """Return the status of a Workload, empty if it has none or does not exist."""
        return dict((self.get(name) or {}).get("status") or {})

    def statuses(self) -> dict[str, dict[str, Any]]:
        """Return the status of every Workload by name."""
        workloads = self._server.documents(WORKLOADS, self.namespace)
        return {w["metadata"]["name"]: dict(w.get("status") or {}) for w in workloads}

    def in_phase(self, phase: str) -> list[str]:
        """Return the names of the Workloads in a phase, sorted."""
        return [name for name, status in self.statuses().items() if status.get("phase") == phase]

    def ledgers(self) -> list[Document]:
        """Return all ledgers."""
        return self._server.documents(LEDGERS, self.namespace)

    def claims(self) -> list[Document]:
        """Return the claims that have the managed label."""
        claims = self._server.documents(CLAIMS, self.namespace)
        return [c for c in claims if (c["metadata"].get("labels") or {}).get(MANAGED_LABEL) == MANAGED_VALUE]

    def pods(self) -> list[Document]:
        """Return all Pods of the namespace."""
        return self._server.documents(PODS, self.namespace)

    def pod(self, workload_name: str) -> Document | None:
        """Return the Pod of a Workload, or `None` if it does not exist."""
        return self._server.document(PODS, worker_pod_name(workload_name), self.namespace)

    def pod_key(self, workload_name: str) -> ObjectKey:
        """Return the key of a Workload's Pod."""
        return ObjectKey(self.namespace, worker_pod_name(workload_name))

    def seats(self) -> dict[str, list[str]]:
        """Return the names of the workers with a seat on each claim."""
        return {
            ledger["spec"]["claimName"]: [seat["workload"] for seat in ledger["spec"].get("seats", [])]
            for ledger in self.ledgers()
        }

    def is_empty(self) -> bool:
        """Return whether no Workload, Pod, claim or ledger is left."""
        return not (self.statuses() or self.pods() or self.claims() or self.ledgers())
