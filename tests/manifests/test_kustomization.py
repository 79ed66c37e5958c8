from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.manifests.tree import (
    BASE,
    BESIDE,
    CHECKOUT,
    CONTROLLER_NAMESPACE,
    KUSTOMIZATION,
    MANIFESTS,
    OVERLAYS,
    WORKER_NAMESPACE,
    Object,
    listed_files,
    load,
    objects,
)

POD_SECURITY = "pod-security.kubernetes.io/"


def identity(item: Object) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


FOLDERS = sorted(path.parent for path in MANIFESTS.rglob(KUSTOMIZATION))


def test_every_file_is_listed_by_its_folder() -> None:
    listed = {path for folder in FOLDERS for path in listed_files(folder)}

    assert listed == {path for path in MANIFESTS.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "folder", [folder for folder in FOLDERS if folder != MANIFESTS], ids=lambda f: f.name
)
def test_a_folder_lists_only_its_own_files(folder: Path) -> None:
    """Files elsewhere are included as a folder with its own kustomization."""
    kustomization = load(folder / KUSTOMIZATION)
    files = [entry for entry in kustomization["resources"] if entry.endswith(".yaml")]

    assert [entry for entry in files if "/" in entry] == []


def test_the_installation_has_all_folders_except_overlays_and_additions() -> None:
    elsewhere = [OVERLAYS, *(MANIFESTS / name for name in BESIDE)]
    everything = {
        path
        for path in MANIFESTS.rglob("*.yaml")
        if not any(path.is_relative_to(folder) for folder in elsewhere)
    }

    assert set(listed_files(MANIFESTS)) == everything


def test_no_object_is_installed_twice() -> None:
    identities = [identity(item) for item in objects()]

    assert len(identities) == len(set(identities))


def test_the_version_label_and_image_tag_are_the_projects_version() -> None:
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    top = load(BASE / KUSTOMIZATION)
    pairs = {key: value for entry in top["labels"] for key, value in entry["pairs"].items()}

    assert pairs["app.kubernetes.io/version"] == version
    assert [image["newTag"] for image in top["images"]] == [version]


def test_labels_that_change_with_a_release_stay_out_of_selectors() -> None:
    for entry in load(BASE / KUSTOMIZATION)["labels"]:
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


def test_every_namespaced_object_is_in_an_installed_namespace() -> None:
    namespaces = {item["metadata"]["namespace"] for item in objects() if "namespace" in item["metadata"]}

    assert namespaces == {CONTROLLER_NAMESPACE, WORKER_NAMESPACE}
