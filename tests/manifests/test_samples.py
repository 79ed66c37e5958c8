"""The samples show each kind of worker, and ask for nothing that a small cluster with a fake device lacks."""

from __future__ import annotations

import json

from controller.api.workload import WORKLOADS
from tests.manifests.tree import MANIFESTS, WORKER_NAMESPACE, objects

SAMPLES = {
    item["metadata"]["name"]: (item, WORKLOADS.decode(json.dumps(item).encode()))
    for item in objects(MANIFESTS / "samples")
}
WORKERS = {name: workload for name, (_, workload) in SAMPLES.items()}


def test_they_show_sharing_exclusive_several_devices_and_sampling() -> None:
    sharing = [worker for worker in WORKERS.values() if not worker.spec.exclusive]

    assert {worker.spec.role for worker in sharing} == {"trainer", "sampler"}
    assert len({worker.owner_key for worker in sharing}) > 1
    assert any(worker.spec.exclusive and worker.spec.training_kind == "lora" for worker in WORKERS.values())
    assert any(worker.spec.accelerator.devices == 2 for worker in WORKERS.values())


def test_they_are_workers_of_the_workers_namespace() -> None:
    for worker in WORKERS.values():
        assert worker.metadata.namespace == WORKER_NAMESPACE


def test_their_workers_run_under_the_restricted_profile_and_end_by_themselves() -> None:
    for item, workload in SAMPLES.values():
        pod = item["spec"]["template"]["spec"]
        (container,) = pod["containers"]

        assert container["name"] == workload.spec.worker_container_name
        assert pod["restartPolicy"] == "Never"
        assert pod["securityContext"]["runAsNonRoot"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "limits" not in container["resources"]
