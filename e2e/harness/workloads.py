"""Workloads, ledgers, claims and Pods as a test sees them: made, read and awaited through the API server."""

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
    """A Workload: a full fine-tuning trainer that shares, unless told otherwise."""
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
    """Furnish nodes that have a single GPU each: a claim for every node, no more. Return their names."""
    return cluster.furnish(Fleet(nodes=count, shape=NodeShape(gpus=1)))


class WorkloadClient:
    """The objects of one cluster's workers' namespace; `pace` and `worker_image` are the cluster's."""

    def __init__(self, api: Api, *, pace: float = 1, worker_image: str = WORKER_IMAGE) -> None:
        self.api = api
        self.pace = pace
        self._worker_image = worker_image

    def submit(self, *workloads: Object) -> None:
        """Create Workloads, with the image that this cluster's workers run."""
        for each in workloads:
            for container in each["spec"]["template"]["spec"]["containers"]:
                if container.get("image") == WORKER_IMAGE:
                    container["image"] = self._worker_image
            self.api.create(WORKLOADS, each)

    def delete(self, name: str) -> None:
        """Ask for the deletion of a Workload."""
        self.api.delete(f"{WORKLOADS}/{name}")

    def status(self, name: str) -> dict[str, Any]:
        """The status of a Workload, empty before the first write."""
        return dict(self.api.get(f"{WORKLOADS}/{name}").get("status", {}))

    def statuses(self) -> dict[str, dict[str, Any]]:
        """The status of every Workload by name."""
        return {w["metadata"]["name"]: dict(w.get("status", {})) for w in self.api.items(WORKLOADS)}

    def ledgers(self) -> list[Object]:
        """All ledgers."""
        return self.api.items(LEDGERS)

    def claims(self) -> list[Object]:
        """The claims that carry our label."""
        return self.api.items(CLAIMS, labelSelector=MANAGED)

    def pods(self) -> list[Object]:
        """All Pods of the workers' namespace."""
        return self.api.items(PODS)

    def seats(self) -> dict[str, list[str]]:
        """The names of the workers seated on each claim."""
        return {
            ledger["spec"]["claimName"]: [seat["workload"] for seat in ledger["spec"].get("seats", [])]
            for ledger in self.ledgers()
        }

    def in_phase(self, phase: str) -> set[str]:
        """The names of the Workloads in a phase."""
        return {name for name, status in self.statuses().items() if status.get("phase") == phase}

    def await_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Return the status of a Workload once it is in that phase."""

        def reached() -> dict[str, Any] | None:
            status = self.status(name)
            return status if status.get("phase") == phase else None

        return self.await_that(reached, f"Workload {name} is not {phase}")

    def await_phases(self, names: Iterable[str], phase: str) -> None:
        """Return once all these Workloads are in that phase."""
        wanted = set(names)
        self.await_that(lambda: wanted <= self.in_phase(phase), f"Workloads {sorted(wanted)} are not {phase}")

    def await_pending(self, name: str, code: str) -> dict[str, Any]:
        """Return the status of a Workload once it waits with a reason of that code."""

        def waits() -> dict[str, Any] | None:
            status = self.status(name)
            pending = status.get("phase") == "Pending" and status.get("reason", "").startswith(f"{code}: ")
            return status if pending else None

        return self.await_that(waits, f"Workload {name} does not wait with {code}")

    def await_gone(self) -> None:
        """Return once no Workload, Pod, claim or ledger of ours is left."""

        def left() -> bool:
            return not (self.api.items(WORKLOADS) or self.pods() or self.claims() or self.ledgers())

        self.await_that(left, "something is left in the workers' namespace")

    def await_that(
        self, observe: Callable[[], T | None], what: str, *, timeout_seconds: float = SETTLE_SECONDS
    ) -> T:
        """Wait as `wait_until` does, at this cluster's pace."""
        return wait_until(observe, what, timeout_seconds=timeout_seconds * self.pace)
