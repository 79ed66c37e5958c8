"""The admission policy on templates: accepted templates, refused ones and their messages, exempt objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from e2e.controlplane import Api, ApiRefused, Cluster, Object, wait_until
from e2e.controlplane.cluster import MANIFESTS
from e2e.harness.manifest_objects import UNPROCESSABLE, WORKLOADS, refused, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
POLICY = "openrl-workload-templates"
FOLDER = str(MANIFESTS / "template-policy")
FORBIDDEN = 403
APPLIED_SECONDS = 30


@pytest.fixture(scope="module")
def policy(installed_cluster_of_session: Cluster) -> Iterator[Object]:
    """Enforce the policy, and return it once the API server applies it."""
    cluster = installed_cluster_of_session
    enforce(cluster)
    yield cluster.api.get(f"{POLICIES}/{POLICY}")
    cluster.kubectl("delete", "-k", FOLDER)
    await_applied(cluster.api, applied=False)


def enforce(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-k", FOLDER, "--validate=strict")
    await_applied(cluster.api, applied=True)


def await_applied(api: Api, *, applied: bool) -> None:
    """Wait until the API server applies the policy, or no longer does. It reads policies through a watch."""
    body = template(hostNetwork=True)

    def is_as_wanted() -> bool:
        try:
            api.request("POST", f"{WORKLOADS}?dryRun=All", body)
        except ApiRefused:
            return applied
        return not applied

    wait_until(is_as_wanted, f"the policy is applied: not {applied}", timeout_seconds=APPLIED_SECONDS)


def template(container: Object | None = None, **pod: object) -> Object:
    """Return a Workload with additional fields in its container or its Pod."""
    spec = {"containers": [{"name": "worker", "image": "worker:1", **(container or {})}], **pod}
    return workload(template={"spec": spec})


def secured(**context: object) -> Object:
    return {"securityContext": context}


def volume(**source: object) -> Object:
    return {"name": "data", **source}


def init(**more: object) -> list[Object]:
    return [{"name": "prepare", "image": "prepare:1", **more}]


TOKEN = {"sources": [{"serviceAccountToken": {"path": "token", "audience": "vault"}}]}
RESTRICTED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "privileged": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}

ALLOWED: Mapping[str, Object] = {
    "nothing special": template(),
    "the restricted profile": template(secured(**RESTRICTED)),
    "denied fields with their default": template(
        hostNetwork=False, hostPID=False, hostIPC=False, automountServiceAccountToken=False
    ),
    "container ports": template({"ports": [{"containerPort": 8000}]}),
    "volumes": template(
        volumes=[
            volume(emptyDir={}),
            {"name": "model", "persistentVolumeClaim": {"claimName": "models"}},
            {"name": "all", "projected": {"sources": [{"configMap": {"name": "settings"}}]}},
        ]
    ),
    "an init container": template(initContainers=init()),
    "resources and a class": template(
        {"resources": {"requests": {"memory": "1Gi"}}}, runtimeClassName="nvidia", priorityClassName="low"
    ),
    "empty lists": template(
        {"ports": [], **secured(capabilities={"add": []})}, volumes=[], initContainers=[]
    ),
}

REFUSED: Mapping[str, tuple[Object, str]] = {
    "privileged": (
        template(secured(privileged=True)),
        "spec.template.spec: privileged is not allowed, container worker",
    ),
    "a privileged init container": (
        template(initContainers=init(**secured(privileged=True))),
        "spec.template.spec: privileged is not allowed, container prepare",
    ),
    "hostNetwork": (template(hostNetwork=True), "spec.template.spec.hostNetwork: is not allowed"),
    "hostPID": (template(hostPID=True), "spec.template.spec.hostPID: is not allowed"),
    "hostIPC": (template(hostIPC=True), "spec.template.spec.hostIPC: is not allowed"),
    "hostPath": (
        template(volumes=[volume(hostPath={"path": "/"})]),
        "spec.template.spec.volumes: hostPath is not allowed, volume data",
    ),
    "a host port": (
        template({"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]}),
        "spec.template.spec: hostPort is not allowed, container worker",
    ),
    "a host process": (
        template(securityContext={"windowsOptions": {"hostProcess": True}}),
        "spec.template.spec: windowsOptions.hostProcess is not allowed",
    ),
    "capabilities": (
        template(secured(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]})),
        "spec.template.spec: capabilities may only be dropped, container worker",
    ),
    "a ServiceAccount": (
        template(serviceAccountName="admin"),
        "spec.template.spec.serviceAccountName: is not allowed",
    ),
    "a ServiceAccount by its old name": (
        template(serviceAccount="admin"),
        "spec.template.spec.serviceAccountName: is not allowed",
    ),
    "a mounted token": (
        template(automountServiceAccountToken=True),
        "spec.template.spec.automountServiceAccountToken: may only be false",
    ),
    "a projected token": (
        template(volumes=[volume(projected=TOKEN)]),
        "spec.template.spec.volumes: serviceAccountToken is not allowed, volume data",
    ),
    "a boolean field with another type": (
        template(hostNetwork="yes"),
        "spec.template.spec.hostNetwork: is not allowed",
    ),
    "a field with another type": (template(volumes="all"), "expression"),
}


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize("body", ALLOWED.values(), ids=list(ALLOWED))
def test_an_unprivileged_template_is_accepted(cluster: Cluster, body: Object) -> None:
    cluster.api.request("POST", f"{WORKLOADS}?dryRun=All", body)


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize(("body", "message"), REFUSED.values(), ids=list(REFUSED))
def test_a_privileged_template_is_refused(cluster: Cluster, body: Object, message: str) -> None:
    status = UNPROCESSABLE if message == "expression" else FORBIDDEN

    said = refused(lambda: cluster.api.request("POST", f"{WORKLOADS}?dryRun=All", body), status)

    assert message in said
    assert POLICY in said


def test_every_validation_refuses_something(policy: Object) -> None:
    messages = {message for _, message in REFUSED.values()}
    for validation in policy["spec"]["validations"]:
        begins = validation.get("message") or validation["messageExpression"].split('"')[1]
        assert any(begins.startswith(message) or message.startswith(begins) for message in messages), begins


@pytest.mark.usefixtures("policy")
def test_existing_workers_can_be_changed_and_deleted_under_the_policy(cluster: Cluster) -> None:
    cluster.api.delete(f"{BINDINGS}/{POLICY}")
    await_applied(cluster.api, applied=False)
    created = template(hostNetwork=True)
    created["metadata"]["finalizers"] = ["openrl.io/placement"]
    path = f"{WORKLOADS}/{created['metadata']['name']}"
    cluster.api.create(WORKLOADS, created)
    enforce(cluster)

    cluster.api.patch(path, {"metadata": {"labels": {"seen": "true"}}})
    cluster.api.patch(f"{path}/status", {"status": {"phase": "Running"}})
    cluster.api.delete(path)
    cluster.api.patch(path, {"metadata": {"finalizers": None}})

    assert cluster.api.find(path) is None
