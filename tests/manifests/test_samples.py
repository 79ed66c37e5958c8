"""Tests of the samples: one for each kind of worker, for a small cluster."""

from __future__ import annotations

import json

from controller.api.workload import WORKLOADS
from tests.manifests.tree import MANIFESTS, WORKER_NAMESPACE, objects

SAMPLES = {
    item["metadata"]["name"]: (item, WORKLOADS.decode(json.dumps(item).encode()))
    for item in objects(MANIFESTS / "samples")
}
WORKERS = {name: workload for name, (_, workload) in SAMPLES.items()}


def test_the_samples_cover_each_kind_of_worker() -> None:
    sharing = [worker for worker in WORKERS.values() if not worker.spec.exclusive]

    assert {worker.spec.role for worker in sharing} == {"trainer", "sampler"}
    assert len({worker.owner_key for worker in sharing}) > 1
    assert any(worker.spec.exclusive and worker.spec.training_kind == "lora" for worker in WORKERS.values())
    assert any(worker.spec.accelerator.devices == 2 for worker in WORKERS.values())


def test_the_samples_are_in_the_workers_namespace() -> None:
    for worker in WORKERS.values():
        assert worker.metadata.namespace == WORKER_NAMESPACE


def test_the_samples_meet_the_restricted_profile_and_end_by_themselves() -> None:
    for item, workload in SAMPLES.values():
        pod = item["spec"]["template"]["spec"]
        (container,) = pod["containers"]

        assert container["name"] == workload.spec.worker_container_name
        assert pod["restartPolicy"] == "Never"
        assert pod["securityContext"]["runAsNonRoot"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "limits" not in container["resources"]
