"""Every folder of the manifests, built by kubectl and validated strictly by a real API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import yaml

from e2e.controlplane import CONTROLLER_NAMESPACE, Api, Cluster, Object, wait_until
from e2e.controlplane.cluster import CRDS, MANIFESTS
from e2e.controlplane.errors import ApiRefused

pytest_plugins = ("e2e.controlplane.fixtures",)

FOLDERS = sorted(path.parent for path in MANIFESTS.rglob("kustomization.yaml"))

TEXT: Object = {"type": "string"}
TEXTS: Object = {"type": "object", "additionalProperties": TEXT}


def array(**properties: Object) -> Object:
    return {"type": "array", "items": {"type": "object", "properties": properties}}


def fields(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


OPERATOR_KINDS: Mapping[str, Object] = {
    "ServiceMonitor": fields(
        selector=fields(matchLabels=TEXTS),
        endpoints=array(port=TEXT, path=TEXT, scheme=TEXT, interval=TEXT),
    ),
    "PrometheusRule": fields(
        groups=array(
            name=TEXT,
            rules=array(**{"alert": TEXT, "expr": TEXT, "for": TEXT, "labels": TEXTS, "annotations": TEXTS}),
        )
    ),
}
"""The used part of the Prometheus operator's schemas. A misspelled field is refused."""


def definition(kind: str, spec: Object) -> Object:
    plural, group = f"{kind.lower()}s", "monitoring.coreos.com"
    schema = {"openAPIV3Schema": fields(spec=spec)}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture(scope="module")
def operator_kinds(installed_cluster_of_session: Cluster) -> Iterator[None]:
    """Install the kinds of the Prometheus operator."""
    api = installed_cluster_of_session.api
    made = [definition(kind, spec) for kind, spec in OPERATOR_KINDS.items()]
    for each in made:
        api.create(CRDS, each)
    for each in made:
        wait_until(
            partial(is_served, api, each), f"{each['metadata']['name']}: not served", timeout_seconds=30
        )
    yield
    for each in made:
        api.delete(f"{CRDS}/{each['metadata']['name']}")


def is_served(api: Api, made: Object) -> bool:
    """Whether objects of a kind can be listed. A new kind first responds with 404, then 429."""
    plural, _, group = made["metadata"]["name"].partition(".")
    try:
        api.get(f"/apis/{group}/v1/namespaces/{CONTROLLER_NAMESPACE}/{plural}")
    except ApiRefused:
        return False
    return True


def build(cluster: Cluster, folder: Path) -> list[Object]:
    return list(yaml.safe_load_all(cluster.kubectl("kustomize", str(folder))))


def installation(folder: Path) -> str:
    return str(folder.relative_to(MANIFESTS)) if folder != MANIFESTS else "all"


@pytest.mark.usefixtures("operator_kinds")
@pytest.mark.parametrize("folder", FOLDERS, ids=installation)
def test_the_server_accepts_every_field_of_every_build(cluster: Cluster, folder: Path) -> None:
    """Validation is that of the server and strict: an unknown field is an error."""
    built = cluster.kubectl("kustomize", str(folder))

    answer = cluster.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "--output=name", "--filename=-", stdin=built
    )

    assert len(answer.splitlines()) == len(list(yaml.safe_load_all(built)))


def differences(one: list[Object], other: list[Object]) -> set[str]:
    """Return the objects that differ, as `<kind>/<name>`."""
    sides = [{f"{item['kind']}/{item['metadata']['name']}": item for item in side} for side in (one, other)]
    return {name for name in {*sides[0], *sides[1]} if sides[0].get(name) != sides[1].get(name)}


@pytest.mark.parametrize(
    ("overlay", "changed"),
    [
        ("dev", {"Deployment/open-rl-scheduler", "PodDisruptionBudget/open-rl-scheduler"}),
        (
            "metrics",
            {
                "Deployment/open-rl-scheduler",
                "Service/open-rl-scheduler-metrics",
                "ServiceMonitor/open-rl-scheduler",
            },
        ),
    ],
)
def test_an_overlay_changes_only_these_objects(cluster: Cluster, overlay: str, changed: set[str]) -> None:
    built = build(cluster, MANIFESTS / "overlays" / overlay)

    assert differences(build(cluster, MANIFESTS), built) == changed


@pytest.mark.parametrize("overlay", ["dev", "metrics"])
def test_the_restricted_profile_admits_an_overlays_pod(cluster: Cluster, overlay: str) -> None:
    (deployment,) = (
        item for item in build(cluster, MANIFESTS / "overlays" / overlay) if item["kind"] == "Deployment"
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "try"},
        "spec": deployment["spec"]["template"]["spec"],
    }

    cluster.api.request("POST", f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/pods?dryRun=All", pod)
