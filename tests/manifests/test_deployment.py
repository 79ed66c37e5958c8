"""Tests of the Deployment: its settings, probes and security context."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.config.flags import OPTIONS, Settings, resolve
from tests.manifests.tree import (
    BASE,
    CONTROLLER_NAMESPACE,
    KUSTOMIZATION,
    MANIFESTS,
    OVERLAYS,
    WORKER_NAMESPACE,
    Object,
    listed_files,
    load,
    load_all,
    only,
)

PATH = MANIFESTS / "controller" / "deployment.yaml"
DEPLOYMENT = load(PATH)
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]

VARIABLES = {
    "OPEN_RL_WORKER_NAMESPACE": "openrl-system",
    "OPEN_RL_DEVICE_CLASS": "gpu.nvidia.com",
    "OPEN_RL_DEVICE_DRIVER": "",
    "OPEN_RL_PLACEMENT_STRATEGY": "binpack",
    "OPEN_RL_MAX_SEATS_PER_CLAIM": "0",
    "OPEN_RL_RECONCILE_INTERVAL": "10s",
    "OPEN_RL_PLACEMENT_TIMEOUT": "15m",
    "OPEN_RL_MAX_CONCURRENT_RECONCILES": "4",
}


def environment() -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in CONTAINER["env"] if "value" in entry}


def arguments() -> dict[str, str]:
    return dict(argument.split("=", 1) for argument in CONTAINER["args"])


def test_every_variable_is_in_the_environment_at_its_default() -> None:
    assert environment() == VARIABLES


def test_the_variables_are_those_that_the_controller_reads() -> None:
    read = {option.env for option in OPTIONS.values() if option.env.startswith("OPEN_RL_")}

    assert set(VARIABLES) == read


def test_the_arguments_are_flags_without_a_variable() -> None:
    without = {option.flag for option in OPTIONS.values() if not option.env}

    assert set(arguments()) <= without


def test_explicit_settings_equal_the_defaults() -> None:
    settings = resolve(arguments(), environment())

    changed = {name for name in OPTIONS if getattr(settings, name) != getattr(Settings(), name)}
    assert changed == {"log_format"}, "json is the default off a terminal only"


def test_every_variable_is_explained_in_the_line_above() -> None:
    lines = PATH.read_text().splitlines()
    entries = [number for number, line in enumerate(lines) if re.match(r" {12}- name: [A-Z_]+$", line)]

    assert len(entries) == len(CONTAINER["env"])
    assert [lines[number] for number in entries if not lines[number - 1].strip().startswith("# ")] == []


def test_the_pod_gets_its_name_and_namespace() -> None:
    fields = {
        entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"]
        for entry in CONTAINER["env"]
        if "valueFrom" in entry
    }

    assert fields == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}


def test_the_workers_namespace_is_that_of_the_role() -> None:
    assert environment()["OPEN_RL_WORKER_NAMESPACE"] == WORKER_NAMESPACE
    assert only("Role", "open-rl-scheduler", WORKER_NAMESPACE)


def test_the_pod_meets_the_restricted_profile_with_a_read_only_root() -> None:
    assert POD["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def keys(value: object) -> Iterator[str]:
    """Yield every key of a document, at any depth."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from keys(member)
    elif isinstance(value, list):
        for item in value:
            yield from keys(item)


@pytest.mark.parametrize("folder", [MANIFESTS, OVERLAYS / "dev", OVERLAYS / "metrics"], ids=str)
def test_no_user_group_or_label_is_pinned_that_a_platform_may_assign(folder: Path) -> None:
    """Platforms that assign user IDs refuse Pods with a user ID outside the range of the namespace."""
    documents = [document for path in listed_files(folder) for document in load_all(path)]
    assert "securityContext" in set(keys(documents))
    assert {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions"}.isdisjoint(
        keys(documents)
    )


def test_probes_use_the_port_of_the_controller() -> None:
    (port,) = CONTAINER["ports"]

    assert arguments()["--health-probe-bind-address"] == f":{port['containerPort']}"
    assert CONTAINER["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": port["name"]}
    assert CONTAINER["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": port["name"]}


def test_selectors_match_the_controllers_pods() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    budget = only("PodDisruptionBudget", "open-rl-scheduler", CONTROLLER_NAMESPACE)
    selectors: list[Object] = [
        DEPLOYMENT["spec"]["selector"],
        budget["spec"]["selector"],
        *(constraint["labelSelector"] for constraint in POD["topologySpreadConstraints"]),
    ]

    for selector in selectors:
        assert selector["matchLabels"].items() <= labels.items()


def test_two_replicas_can_be_drained_one_at_a_time() -> None:
    budget = only("PodDisruptionBudget", "open-rl-scheduler", CONTROLLER_NAMESPACE)

    assert DEPLOYMENT["spec"]["replicas"] == 2
    assert arguments()["--leader-elect"] == "true"
    assert budget["spec"]["maxUnavailable"] == 1


def test_kustomize_sets_the_name_and_tag_of_the_image() -> None:
    (image,) = load(BASE / KUSTOMIZATION)["images"]

    assert CONTAINER["image"] == image["name"]


def test_memory_has_a_limit_and_cpu_has_none() -> None:
    assert set(CONTAINER["resources"]["requests"]) == {"cpu", "memory"}
    assert set(CONTAINER["resources"]["limits"]) == {"memory"}
