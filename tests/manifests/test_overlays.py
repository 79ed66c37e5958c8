"""Tests of the overlays and of the additions to an installation.

These tests apply patches themselves. The scenario tests build and apply everything with kubectl.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from controller.config.flags import resolve
from tests.manifests.test_deployment import DEPLOYMENT
from tests.manifests.tree import (
    BASE,
    KUSTOMIZATION,
    MANIFESTS,
    OVERLAYS,
    WORKER_NAMESPACE,
    Object,
    load,
    objects,
    only,
)

DEV, METRICS = OVERLAYS / "dev", OVERLAYS / "metrics"
POLICY_FOLDER = MANIFESTS / "template-policy"
(POLICY,) = (item for item in objects(POLICY_FOLDER) if item["kind"] == "ValidatingAdmissionPolicy")
(BINDING,) = (item for item in objects(POLICY_FOLDER) if item["kind"] == "ValidatingAdmissionPolicyBinding")
(SERVICE,) = (item for item in objects(METRICS) if item["kind"] == "Service")
(MONITOR,) = (item for item in objects(METRICS) if item["kind"] == "ServiceMonitor")


def step(path: str) -> tuple[list[Any], Any]:
    """Split a JSON pointer into the path of the parent and the last key."""
    parts: list[Any] = [int(part) if part.isdigit() else part for part in path.removeprefix("/").split("/")]
    return parts[:-1], parts[-1]


def patched(deployment: Object, patch: Path) -> Object:
    """Apply a patch file to the Deployment. A failed `test` is an error."""
    result = copy.deepcopy(deployment)
    operations: Any = load(patch)
    for operation in operations:
        way, last = step(operation["path"])
        parent: Any = result
        for key in way:
            parent = parent[key]
        match operation["op"]:
            case "test":
                assert parent[last] == operation["value"], operation["path"]
            case "add" if last == "-":
                parent.append(operation["value"])
            case "replace":
                assert parent[last]
                parent[last] = operation["value"]
            case other:
                raise AssertionError(other)
    return result


def container(deployment: Object) -> Object:
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def flags(deployment: Object) -> dict[str, str]:
    return dict(argument.split("=", 1) for argument in container(deployment)["args"])


@pytest.mark.parametrize(
    ("folder", "changes"),
    [
        (DEV, {"--leader-elect": "false", "--log-level": "debug", "--log-format": "text"}),
        (METRICS, {"--metrics-bind-address": ":8080"}),
    ],
    ids=["dev", "metrics"],
)
def test_an_overlay_changes_only_these_flags_of_the_base(folder: Path, changes: dict[str, str]) -> None:
    overlaid = patched(DEPLOYMENT, folder / "deployment.yaml")

    assert load(folder / KUSTOMIZATION)["resources"][0] == "../../base"
    assert (folder / "../../base").resolve() == BASE
    assert flags(overlaid) == {**flags(DEPLOYMENT), **changes}
    resolve(flags(overlaid), {})


def test_dev_has_one_replica_that_ends_before_its_successor_starts() -> None:
    kustomization = load(DEV / KUSTOMIZATION)
    overlaid = patched(DEPLOYMENT, DEV / "deployment.yaml")
    removed = load(DEV / "no_pod_disruption_budget.yaml")

    assert kustomization["replicas"] == [{"name": DEPLOYMENT["metadata"]["name"], "count": 1}]
    assert overlaid["spec"]["strategy"] == {"type": "Recreate"}
    assert (removed["kind"], removed["$patch"]) == ("PodDisruptionBudget", "delete")


def test_the_service_names_the_metrics_port_of_every_replica() -> None:
    overlaid = patched(DEPLOYMENT, METRICS / "deployment.yaml")
    ports = {port["name"]: port["containerPort"] for port in container(overlaid)["ports"]}
    (port,), (endpoint,) = SERVICE["spec"]["ports"], MONITOR["spec"]["endpoints"]

    assert flags(overlaid)["--metrics-bind-address"] == f":{ports['metrics']}"
    assert (port["targetPort"], port["port"]) == ("metrics", ports["metrics"])
    assert (endpoint["port"], endpoint["path"]) == (port["name"], "/metrics")
    assert MONITOR["spec"]["selector"]["matchLabels"].items() <= SERVICE["metadata"]["labels"].items()
    labels = overlaid["spec"]["template"]["metadata"]["labels"]
    assert SERVICE["spec"]["selector"].items() <= labels.items()
    namespaces = {item["metadata"]["namespace"] for item in (SERVICE, MONITOR, DEPLOYMENT)}
    assert len(namespaces) == 1


def test_the_policy_is_bound_and_checks_only_new_workloads() -> None:
    (rule,) = POLICY["spec"]["matchConstraints"]["resourceRules"]

    assert (rule["apiGroups"], rule["resources"]) == (["openrl.io"], ["workloads"])
    assert rule["operations"] == ["CREATE"]
    assert POLICY["spec"]["failurePolicy"] == "Fail"
    assert BINDING["spec"]["policyName"] == POLICY["metadata"]["name"]
    assert BINDING["spec"]["validationActions"] == ["Deny"]


def test_the_advice_is_installed_and_only_warns() -> None:
    policy = only("ValidatingAdmissionPolicy", "openrl-workload-advice")
    binding = only("ValidatingAdmissionPolicyBinding", "openrl-workload-advice")
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]

    assert (rule["apiGroups"], rule["resources"]) == (["openrl.io"], ["workloads"])
    assert rule["operations"] == ["CREATE"]
    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert binding["spec"]["policyName"] == "openrl-workload-advice"
    assert binding["spec"]["validationActions"] == ["Warn"]


def test_the_advice_knows_the_fields_of_the_schema() -> None:
    policy = only("ValidatingAdmissionPolicy", "openrl-workload-advice")
    unknown = next(item for item in policy["spec"]["variables"] if item["name"] == "unknown")
    spec = only("CustomResourceDefinition", "workloads.openrl.io")["spec"]
    schema = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]

    assert set(re.findall(r'"(\w+)"', unknown["expression"])) == set(schema["accelerator"]["properties"])


def test_the_workers_namespace_has_the_label_that_the_advice_expects() -> None:
    labels = only("Namespace", WORKER_NAMESPACE)["metadata"]["labels"]

    assert labels == {"openrl.io/workers": "true"}


def test_every_message_of_the_policy_names_the_field() -> None:
    for validation in POLICY["spec"]["validations"]:
        message = validation.get("message") or validation["messageExpression"].removeprefix('"')
        assert message.startswith("spec.template.spec"), message
        assert validation["reason"] == "Forbidden"
