from __future__ import annotations

import tomllib

import pytest

from tests.manifests.tree import (
    CHECKOUT,
    CONTROLLER_NAMESPACE,
    KUSTOMIZATION,
    MANIFESTS,
    WORKER_NAMESPACE,
    Object,
    listed_files,
    load,
    objects,
)

POD_SECURITY = "pod-security.kubernetes.io/"


def identity(item: Object) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


@pytest.mark.parametrize("name", [path.name for path in sorted(MANIFESTS.iterdir()) if path.is_dir()])
def test_every_file_is_listed_by_its_folder(name: str) -> None:
    folder = MANIFESTS / name

    assert sorted(listed_files(folder)) == sorted(path for path in folder.rglob("*") if path.is_file())


def test_everything_but_samples_and_monitoring_is_installed() -> None:
    everything = {
        path for path in MANIFESTS.rglob("*.yaml") if path.parent.name not in {"samples", "monitoring"}
    }

    assert set(listed_files(MANIFESTS)) == everything


def test_no_object_is_installed_twice() -> None:
    identities = [identity(item) for item in objects()]

    assert len(identities) == len(set(identities))


def test_version_and_image_tag_are_the_projects_version() -> None:
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    top = load(MANIFESTS / KUSTOMIZATION)
    pairs = {key: value for entry in top["labels"] for key, value in entry["pairs"].items()}

    assert pairs["app.kubernetes.io/version"] == version
    assert [image["newTag"] for image in top["images"]] == [version]


def test_labels_that_change_with_a_release_stay_out_of_selectors() -> None:
    for entry in load(MANIFESTS / KUSTOMIZATION)["labels"]:
        assert not entry.get("includeSelectors", False)


def test_only_the_controllers_namespace_has_a_pod_security_level() -> None:
    levels = {
        item["metadata"]["name"]: {
            key: value
            for key, value in item["metadata"].get("labels", {}).items()
            if key.startswith(POD_SECURITY)
        }
        for item in objects()
        if item["kind"] == "Namespace"
    }

    assert levels == {CONTROLLER_NAMESPACE: {POD_SECURITY + "enforce": "restricted"}, WORKER_NAMESPACE: {}}


def test_every_namespaced_object_is_in_a_namespace_that_is_installed() -> None:
    namespaces = {item["metadata"]["namespace"] for item in objects() if "namespace" in item["metadata"]}

    assert namespaces == {CONTROLLER_NAMESPACE, WORKER_NAMESPACE}
