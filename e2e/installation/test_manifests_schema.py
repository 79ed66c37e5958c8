"""What only an API server can show about the two schemas: refused writes, and preserved fields."""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from urllib.request import Request, urlopen

import pytest

from e2e.controlplane import WORKER_NAMESPACE, Api, Cluster, ControlPlane, Object
from e2e.controlplane.errors import KubectlFailed
from e2e.harness.manifest_objects import LEDGERS, WORKLOADS, ledger, refused, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

Edit = Callable[[Object], object]


@pytest.fixture
def controller(cluster: Cluster) -> Iterator[Api]:
    with Api.from_kubeconfig(cluster.controller_kubeconfig) as api:
        yield api


def edited(edit: Edit) -> Object:
    body = workload()
    edit(body["spec"])
    return body


def pod_spec(spec: Object) -> Object:
    answer: Object = spec["template"]["spec"]
    return answer


def test_defaults_are_set(cluster: Cluster) -> None:
    spec = cluster.api.create(WORKLOADS, workload())["spec"]

    assert spec["exclusive"] is True
    assert spec["workerContainerName"] == "worker"
    assert spec["accelerator"] == {"memory": "60Gi", "mode": "SingleGPU", "type": "GPU"}


ACCEPTED: Mapping[str, Edit] = {
    "several devices": lambda spec: spec["accelerator"].update(mode="MultiGPU", devices=2),
    "a TPU, which the controller fails": lambda spec: spec["accelerator"].update(type="TPU"),
    "no memory, which the controller fails": lambda spec: spec["accelerator"].update(memory="0"),
    "memory as a number": lambda spec: spec["accelerator"].update(memory=64424509440),
    "memory of one mebibyte": lambda spec: spec["accelerator"].update(memory="1Mi"),
    "a template without the named container": lambda spec: spec.update(workerContainerName="other"),
    "an empty owner": lambda spec: spec.update(ownerID=""),
    "nulls for absent fields": lambda spec: spec.update(
        ownerID=None, template={"metadata": {"creationTimestamp": None}, **spec["template"]}
    ),
}


@pytest.mark.parametrize("edit", ACCEPTED.values(), ids=list(ACCEPTED))
def test_accepted(cluster: Cluster, edit: Edit) -> None:
    cluster.api.create(WORKLOADS, edited(edit))


REFUSED: Mapping[str, tuple[Edit, str]] = {
    "no role": (lambda spec: spec.pop("role"), "spec.role: Required value"),
    "another role": (lambda spec: spec.update(role="judge"), "spec.role: Unsupported value"),
    "no model": (lambda spec: spec.pop("modelID"), "spec.modelID: Required value"),
    "an empty model": (lambda spec: spec.update(modelID=""), "spec.modelID: Invalid value"),
    "a long model": (lambda spec: spec.update(modelID="m" * 254), "spec.modelID: Too long"),
    "a long owner": (lambda spec: spec.update(ownerID="o" * 254), "spec.ownerID: Too long"),
    "another training": (lambda spec: spec.update(trainingKind="x"), "spec.trainingKind: Unsupported value"),
    "a long container name": (
        lambda spec: spec.update(workerContainerName="c" * 64),
        "spec.workerContainerName: Too long",
    ),
    "no accelerator": (lambda spec: spec.pop("accelerator"), "spec.accelerator: Required value"),
    "no memory": (lambda spec: spec["accelerator"].clear(), "spec.accelerator.memory: Required value"),
    "memory that is not a quantity": (
        lambda spec: spec["accelerator"].update(memory="60 GB"),
        "spec.accelerator.memory: Invalid value",
    ),
    "memory without a unit": (
        lambda spec: spec["accelerator"].update(memory=60),
        "spec.accelerator.memory: Invalid value: 60: below 1Mi; write a unit, e.g. 60Gi",
    ),
    "memory without a unit, as text": (
        lambda spec: spec["accelerator"].update(memory="60"),
        'spec.accelerator.memory: Invalid value: "60": below 1Mi; write a unit, e.g. 60Gi',
    ),
    "another type": (
        lambda spec: spec["accelerator"].update(type="NPU"),
        "spec.accelerator.type: Unsupported value",
    ),
    "MultiGPU without devices": (
        lambda spec: spec["accelerator"].update(mode="MultiGPU"),
        "spec.accelerator.devices: Required value: is required with mode MultiGPU",
    ),
    "MultiGPU on one device": (
        lambda spec: spec["accelerator"].update(mode="MultiGPU", devices=1),
        "spec.accelerator.devices: Invalid value: 1",
    ),
    "devices without MultiGPU": (
        lambda spec: spec["accelerator"].update(devices=2),
        "spec.accelerator.devices: Forbidden: is allowed with mode MultiGPU only",
    ),
    "no template": (lambda spec: spec.pop("template"), "spec.template: Required value"),
    "no template spec": (lambda spec: spec["template"].clear(), "spec.template.spec: Required value"),
    "no containers": (lambda spec: pod_spec(spec).clear(), "spec.template.spec.containers: Required value"),
    "nodeName": (
        lambda spec: pod_spec(spec).update(nodeName="node-1"),
        "spec.template.spec.nodeName: Forbidden: the placement controller and kube-scheduler choose the node",
    ),
    "nodeSelector": (
        lambda spec: pod_spec(spec).update(nodeSelector={"gpu": "h100"}),
        "spec.template.spec.nodeSelector: Forbidden: the placement controller and kube-scheduler choose",
    ),
    "affinity": (
        lambda spec: pod_spec(spec).update(affinity={"podAffinity": {}}),
        "spec.template.spec.affinity: Forbidden: the placement controller sets the node affinity",
    ),
    "resourceClaims": (
        lambda spec: pod_spec(spec).update(resourceClaims=[{"name": "gpu", "resourceClaimName": "claim-x"}]),
        "spec.template.spec.resourceClaims: Forbidden: the placement controller sets the claim",
    ),
    "a forbidden field that is empty": (
        lambda spec: pod_spec(spec).update(nodeSelector={}),
        "spec.template.spec.nodeSelector: Forbidden",
    ),
}


@pytest.mark.parametrize(("edit", "message"), REFUSED.values(), ids=list(REFUSED))
def test_refused(cluster: Cluster, edit: Edit, message: str) -> None:
    assert message in refused(lambda: cluster.api.create(WORKLOADS, edited(edit)))


def test_a_misspelled_field_of_the_spec_is_reported(cluster: Cluster) -> None:
    body = json.dumps(edited(lambda spec: spec.update(modleID="model")))

    with pytest.raises(KubectlFailed, match=r'unknown field "spec\.modleID"'):
        cluster.kubectl("create", "--validate=strict", "-f", "-", stdin=body)


COMPLETE: Object = {
    "ownerID": "team-a",
    "trainingKind": "fft",
    "exclusive": False,
    "accelerator": {"memory": "40Gi", "mode": "MultiGPU", "devices": 2, "fabric": "nvlink"},
    "template": {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
        "spec": {"priorityClassName": "low", "containers": [{"name": "worker", "image": "worker:1"}]},
    },
}

CHANGES: Mapping[str, tuple[Object, str]] = {
    "role": ({"role": "sampler"}, "spec.role"),
    "model": ({"modelID": "other"}, "spec.modelID"),
    "owner": ({"ownerID": "team-b"}, "spec.ownerID"),
    "owner taken away": ({"ownerID": None}, "spec.ownerID"),
    "training": ({"trainingKind": "lora"}, "spec.trainingKind"),
    "training taken away": ({"trainingKind": None}, "spec.trainingKind"),
    "sharing": ({"exclusive": True}, "spec.exclusive"),
    "sharing taken away": ({"exclusive": None}, "spec.exclusive"),
    "memory": ({"accelerator": {"memory": "41Gi"}}, "spec.accelerator"),
    "devices": ({"accelerator": {"devices": 3}}, "spec.accelerator"),
    "mode": ({"accelerator": {"mode": "SingleGPU", "devices": None}}, "spec.accelerator"),
    "an unknown field of the accelerator": ({"accelerator": {"fabric": "none"}}, "spec.accelerator"),
    "container name": ({"workerContainerName": "other"}, "spec.workerContainerName"),
    "image": (
        {"template": {"spec": {"containers": [{"name": "worker", "image": "worker:2"}]}}},
        "spec.template.spec",
    ),
    "a field of the Pod that the schema does not know": (
        {"template": {"spec": {"priorityClassName": "high"}}},
        "spec.template.spec",
    ),
    "a new field of the Pod": ({"template": {"spec": {"hostNetwork": True}}}, "spec.template.spec"),
}


@pytest.fixture
def complete(cluster: Cluster) -> str:
    """Return the path of a Workload with all fields."""
    return f"{WORKLOADS}/{cluster.api.create(WORKLOADS, workload(**COMPLETE))['metadata']['name']}"


@pytest.mark.parametrize(("change", "field"), CHANGES.values(), ids=list(CHANGES))
def test_the_spec_is_immutable(cluster: Cluster, complete: str, change: Object, field: str) -> None:
    message = refused(lambda: cluster.api.patch(complete, {"spec": change}))

    assert f" {field}: " in message
    assert "is immutable after creation" in message


@pytest.mark.parametrize("field", ["ownerID", "trainingKind"])
def test_an_optional_field_cannot_be_added_later(cluster: Cluster, field: str) -> None:
    cluster.api.create(WORKLOADS, workload())
    change = {"spec": {field: "lora"}}

    assert f"spec.{field}" in refused(lambda: cluster.api.patch(f"{WORKLOADS}/worker-1", change))


def test_labels_and_annotations_of_the_template_may_change(cluster: Cluster, complete: str) -> None:
    metadata = {"labels": {"team": None, "tier": "gold"}, "annotations": {"note": "y"}}

    after = cluster.api.patch(complete, {"spec": {"template": {"metadata": metadata}}})

    assert after["spec"]["template"]["metadata"] == {"labels": {"tier": "gold"}, "annotations": {"note": "y"}}
    cluster.api.patch(complete, {"spec": {"template": {"metadata": None}}})


POD_TEMPLATE: Object = {
    "metadata": {
        "labels": {"team": "a", "app.kubernetes.io/name": "trainer"},
        "annotations": {"note": "x"},
        "finalizers": ["example.com/kept"],
    },
    "spec": {
        "serviceAccountName": "trainer",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}],
        "initContainers": [{"name": "warm", "image": "warm:1", "restartPolicy": "Always"}],
        "containers": [
            {
                "name": "worker",
                "image": "worker:1",
                "env": [{"name": "A", "value": ""}],
                "future": {"x": [1]},
            },
            {"name": "sidecar", "image": "sidecar:1"},
        ],
        "futureField": {"nested": [{"deep": True}]},
    },
    "futureSibling": 1,
}


def test_the_template_is_stored_unchanged(cluster: Cluster) -> None:
    cluster.api.create(WORKLOADS, workload(template=copy.deepcopy(POD_TEMPLATE)))

    assert cluster.api.get(f"{WORKLOADS}/worker-1")["spec"]["template"] == POD_TEMPLATE


STATUS_OF_AN_EARLIER_CONTROLLER: Object = {
    "phase": "Running",
    "claimName": "claim-worker-1-0a1b2c3d",
    "seatIndex": 3,
    "history": [{"claim": "claim-old"}],
    "conditions": [{"type": "Placed", "status": "True", "owner": "earlier"}, {"type": "Warm"}],
}


def test_fields_of_an_earlier_controller_survive_our_writes(cluster: Cluster, controller: Api) -> None:
    accelerator = {"memory": "60Gi", "profile": {"mig": "1g.10gb"}}
    cluster.api.create(WORKLOADS, workload(accelerator=accelerator))
    path = f"{WORKLOADS}/worker-1"
    controller.patch(f"{path}/status", {"status": STATUS_OF_AN_EARLIER_CONTROLLER})

    controller.patch(path, {"metadata": {"finalizers": ["openrl.io/placement"]}})
    controller.patch(f"{path}/status", {"status": {"nodeName": "node-1"}})

    after = cluster.api.get(path)
    assert after["spec"]["accelerator"] == {**accelerator, "mode": "SingleGPU", "type": "GPU"}
    assert after["status"] == {**STATUS_OF_AN_EARLIER_CONTROLLER, "nodeName": "node-1"}


def test_writes_of_status_and_spec_do_not_affect_each_other(cluster: Cluster) -> None:
    cluster.api.create(WORKLOADS, workload())
    path = f"{WORKLOADS}/worker-1"

    cluster.api.patch(f"{path}/status", {"spec": {"role": "sampler"}, "status": {"phase": "Pending"}})
    cluster.api.patch(path, {"status": {"phase": "Failed"}})

    after = cluster.api.get(path)
    assert (after["spec"]["role"], after["status"]["phase"]) == ("trainer", "Pending")


def test_an_unknown_phase_is_refused(cluster: Cluster) -> None:
    cluster.api.create(WORKLOADS, workload())
    patch = {"status": {"phase": "Dreaming"}}

    assert "status.phase" in refused(lambda: cluster.api.patch(f"{WORKLOADS}/worker-1/status", patch))


def store_in_etcd(plane: ControlPlane, body: Object) -> None:
    """Write an object to etcd as an API server with an older schema may have left it."""
    key = f"/registry/openrl.io/workloads/{WORKER_NAMESPACE}/{body['metadata']['name']}"
    put = {"key": b64encode(key.encode()).decode(), "value": b64encode(json.dumps(body).encode()).decode()}
    request = Request(f"{plane.etcd_url}/v3/kv/put", json.dumps(put).encode())  # noqa: S310
    with urlopen(request, timeout=5) as answer:  # noqa: S310
        assert answer.status == 200


STORED: Mapping[str, Edit] = {
    "memory without a unit": lambda spec: spec["accelerator"].update(memory=60),
    "no memory": lambda spec: spec["accelerator"].clear(),
    "a node name": lambda spec: pod_spec(spec).update(nodeName="node-1"),
    "devices without a mode": lambda spec: spec["accelerator"].update(devices=2),
    "no containers": lambda spec: pod_spec(spec).clear(),
    "no template spec": lambda spec: spec["template"].clear(),
    "no model": lambda spec: spec.pop("modelID"),
    "an unknown role": lambda spec: spec.update(role="judge"),
    "an unknown training": lambda spec: spec.update(trainingKind=""),
}


@pytest.mark.parametrize("edit", STORED.values(), ids=list(STORED))
def test_a_stored_object_that_violates_the_schema_can_still_be_failed(
    cluster: Cluster, controller: Api, edit: Edit
) -> None:
    if not isinstance(cluster, ControlPlane):
        pytest.skip("needs the etcd behind the API server")
    body = edited(edit)
    body["metadata"] |= {"uid": "5f0e6f3c-0000-4000-8000-000000000001", "generation": 1}
    body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    store_in_etcd(cluster, body)
    path = f"{WORKLOADS}/worker-1"

    controller.patch(path, {"metadata": {"finalizers": ["openrl.io/placement"]}})
    controller.patch(f"{path}/status", {"status": {"phase": "Failed", "reason": "InvalidSpec: no memory"}})
    controller.patch(path, {"metadata": {"finalizers": None}})

    assert cluster.api.get(path)["status"]["phase"] == "Failed"


def test_a_ledger_keeps_every_field_and_a_partial_seat(controller: Api) -> None:
    body = ledger()
    created = controller.request("POST", LEDGERS, body)

    seats = [*body["spec"]["seats"], {"workload": "worker-2", "exclusive": False, "hostRequest": 1024}]
    version = created["metadata"]["resourceVersion"]
    path = f"{LEDGERS}/{body['metadata']['name']}"
    after = controller.patch(path, {"metadata": {"resourceVersion": version}, "spec": {"seats": seats}})

    assert after["spec"] == {**body["spec"], "seats": seats}
    assert (after["epoch"], after["status"]) == (7, {"seats": 2})


def test_a_workload_has_at_most_one_seat_per_ledger(cluster: Cluster) -> None:
    body = ledger()
    body["spec"]["seats"].append({"workload": "worker-1"})

    assert "spec.seats" in refused(lambda: cluster.api.request("POST", LEDGERS, body))
