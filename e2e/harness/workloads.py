"""A client for Workloads, ledgers, claims and Pods: it creates, reads and awaits them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from e2e.controlplane import (
    WORKER_IMAGE,
    WORKER_NAMESPACE,
    Api,
    Cluster,
    Fleet,
    NodeShape,
    Object,
    wait_until,
)

WORKLOADS = f"/apis/openrl.io/v1alpha1/namespaces/{WORKER_NAMESPACE}/workloads"
LEDGERS = f"/apis/openrl.io/v1alpha1/namespaces/{WORKER_NAMESPACE}/claimledgers"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{WORKER_NAMESPACE}/resourceclaims"
PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"

T = TypeVar("T")

SETTLE_SECONDS = 20
MANAGED = "openrl.io/managed=true"


def workload(
    name: str, *, shared: bool = True, memory: str = "20Gi", devices: int = 0, **spec: object
) -> Object:
    """Return a Workload, by default a shared full fine-tuning trainer."""
    accelerator: dict[str, object] = {"memory": memory}
    if devices:
        accelerator |= {"mode": "MultiGPU", "devices": devices}
    requests = {"memory": "1Gi", "cpu": "100m"}
    container = {"name": "worker", "image": WORKER_IMAGE, "resources": {"requests": requests}}
    return {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": WORKER_NAMESPACE},
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


def one_gpu_nodes(cluster: Cluster, count: int) -> list[str]:
    """Add nodes with one GPU each, so that each holds one claim, and return their names."""
    return cluster.create_nodes(Fleet(nodes=count, shape=NodeShape(gpus=1)))


class WorkloadClient:
    """The objects in the workers' namespace of one cluster, which defines `pace` and `worker_image`."""

    def __init__(self, api: Api, *, pace: float = 1, worker_image: str = WORKER_IMAGE) -> None:
        self.api = api
        self.pace = pace
        self._worker_image = worker_image

    def submit(self, *workloads: Object) -> None:
        """Create Workloads with the cluster's worker image."""
        for each in workloads:
            for container in each["spec"]["template"]["spec"]["containers"]:
                if container.get("image") == WORKER_IMAGE:
                    container["image"] = self._worker_image
            self.api.create(WORKLOADS, each)

    def delete(self, name: str) -> None:
        """Delete a Workload."""
        self.api.delete(f"{WORKLOADS}/{name}")

    def status(self, name: str) -> dict[str, Any]:
        """Return the status of a Workload, empty before the first write."""
        return dict(self.api.get(f"{WORKLOADS}/{name}").get("status", {}))

    def statuses(self) -> dict[str, dict[str, Any]]:
        """Return the status of every Workload by name."""
        return {w["metadata"]["name"]: dict(w.get("status", {})) for w in self.api.items(WORKLOADS)}

    def ledgers(self) -> list[Object]:
        """Return all ledgers."""
        return self.api.items(LEDGERS)

    def claims(self) -> list[Object]:
        """Return the managed claims."""
        return self.api.items(CLAIMS, labelSelector=MANAGED)

    def pods(self) -> list[Object]:
        """Return all Pods of the workers' namespace."""
        return self.api.items(PODS)

    def seats(self) -> dict[str, list[str]]:
        """Return the names of the workers with a seat, by claim."""
        return {
            ledger["spec"]["claimName"]: [seat["workload"] for seat in ledger["spec"].get("seats", [])]
            for ledger in self.ledgers()
        }

    def in_phase(self, phase: str) -> set[str]:
        """Return the names of the Workloads in a phase."""
        return {name for name, status in self.statuses().items() if status.get("phase") == phase}

    def await_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait until a Workload is in a phase, and return its status."""

        def reached() -> dict[str, Any] | None:
            status = self.status(name)
            return status if status.get("phase") == phase else None

        return self.await_that(reached, f"Workload {name} is not {phase}")

    def await_phases(self, names: Iterable[str], phase: str) -> None:
        """Wait until all these Workloads are in a phase."""
        expected = set(names)
        self.await_that(
            lambda: expected <= self.in_phase(phase), f"Workloads {sorted(expected)} are not {phase}"
        )

    def await_pending(self, name: str, code: str) -> dict[str, Any]:
        """Wait until a Workload is Pending with a reason code, and return its status."""

        def waits() -> dict[str, Any] | None:
            status = self.status(name)
            pending = status.get("phase") == "Pending" and status.get("reason", "").startswith(f"{code}: ")
            return status if pending else None

        return self.await_that(waits, f"Workload {name} is not Pending with {code}")

    def await_gone(self) -> None:
        """Wait until no Workload, Pod, managed claim or ledger exists."""

        def left() -> bool:
            return not (self.api.items(WORKLOADS) or self.pods() or self.claims() or self.ledgers())

        self.await_that(left, "objects are left in the workers' namespace")

    def await_that(
        self, observe: Callable[[], T | None], what: str, *, timeout_seconds: float = SETTLE_SECONDS
    ) -> T:
        """Call `wait_until` with a timeout scaled to the speed of this cluster."""
        return wait_until(observe, what, timeout_seconds=timeout_seconds * self.pace)
