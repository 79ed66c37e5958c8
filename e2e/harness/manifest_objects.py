"""Objects for the tests of the manifests, and a helper that expects a refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.controlplane import WORKER_NAMESPACE, ApiRefused, Object

WORKLOADS = f"/apis/openrl.io/v1alpha1/namespaces/{WORKER_NAMESPACE}/workloads"
LEDGERS = f"/apis/openrl.io/v1alpha1/namespaces/{WORKER_NAMESPACE}/claimledgers"
UNPROCESSABLE = 422


def workload(name: str = "worker-1", **spec: object) -> Object:
    """Return a Workload with the required fields and those given."""
    return {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": WORKER_NAMESPACE},
        "spec": {
            "role": "trainer",
            "modelID": "model",
            "accelerator": {"memory": "60Gi"},
            "template": {"spec": {"containers": [{"name": "worker", "image": "worker:1"}]}},
            **spec,
        },
    }


def ledger() -> Object:
    """Return a ledger of an earlier controller, with unknown fields and a seat without optional fields."""
    return {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "ClaimLedger",
        "metadata": {"name": "ledger-worker-1-0a1b2c3d", "namespace": WORKER_NAMESPACE},
        "epoch": 7,
        "status": {"seats": 2},
        "spec": {
            "claimName": "claim-worker-1-0a1b2c3d",
            "policy": {"order": "fifo"},
            "seats": [
                {"workload": "worker-0"},
                {"workload": "worker-1", "assignmentID": "a-1", "hostRequest": "96Gi", "rank": {"x": 1}},
            ],
        },
    }


def refused(call: Callable[[], object], status: int = UNPROCESSABLE) -> str:
    """Expect the API server to refuse a call, and return its message."""
    with pytest.raises(ApiRefused) as caught:
        call()
    assert caught.value.status == status, caught.value
    return caught.value.message
