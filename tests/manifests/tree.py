"""The files and objects of the manifests, resolved like kustomize but without it.

It follows `resources` and lists the files of generated ConfigMaps. It does not apply labels or the image
tag. The scenario tests install the real build.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).parents[2]
MANIFESTS = CHECKOUT / "manifests"
BASE = MANIFESTS / "base"
OVERLAYS = MANIFESTS / "overlays"
BESIDE = ("monitoring", "samples", "template-policy")
"""Folders that are applied separately from the installation."""
KUSTOMIZATION = "kustomization.yaml"

CONTROLLER_NAMESPACE = "open-rl-scheduler"
WORKER_NAMESPACE = "openrl-system"

Object = dict[str, Any]


def load(path: Path) -> Object:
    """Return the only document of a file."""
    (document,) = load_all(path)
    return document


def load_all(path: Path) -> list[Object]:
    """Return all documents of a file."""
    return list(yaml.safe_load_all(path.read_text()))


def listed_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder's kustomization, itself included, in order."""
    yield folder / KUSTOMIZATION
    kustomization = load(folder / KUSTOMIZATION)
    for generator in kustomization.get("configMapGenerator", []):
        yield from (folder / file for file in generator["files"])
    yield from patch_files(folder)
    for entry in kustomization["resources"]:
        path = (folder / entry).resolve()
        if path.is_dir():
            yield from listed_files(path)
        else:
            yield path


def patch_files(folder: Path) -> list[Path]:
    """Return the patches of a folder's kustomization."""
    return [folder / patch["path"] for patch in load(folder / KUSTOMIZATION).get("patches", [])]


def objects(folder: Path = MANIFESTS) -> list[Object]:
    """Return the objects of a folder's kustomization, without patches."""
    patches = patch_files(folder)
    files = [
        path
        for path in listed_files(folder)
        if path.suffix == ".yaml" and path.name != KUSTOMIZATION and path not in patches
    ]
    return [document for path in files for document in load_all(path)]


def only(kind: str, name: str, namespace: str | None = None) -> Object:
    """Return the only installed object of a kind and name."""
    found = [
        item
        for item in objects()
        if item["kind"] == kind
        and item["metadata"]["name"] == name
        and item["metadata"].get("namespace") == namespace
    ]
    assert len(found) == 1, f"{kind} {namespace}/{name}: {len(found)} of them"
    return found[0]
