"""What the pages tell people to type names folders, files, roles, labels and variables that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from controller.config.settings import OPTIONS
from placement.types import Role
from tests.docs.settings_table import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MANIFESTS = [
    document
    for path in sorted((ROOT / "manifests").rglob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    if isinstance(document, dict)
]
SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("controller", "ledger", "placement", "manifests")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".yaml"}
)


def found(pattern: str, page: Path) -> set[str]:
    return set(re.findall(pattern, page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_applied_is_there(page: Path) -> None:
    for folder in found(r"-k (manifests[\w/-]*)", page):
        assert (ROOT / folder / "kustomization.yaml").is_file(), folder
    for file in found(r"-f (manifests/\S+)", page):
        assert (ROOT / file).is_file(), file


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_roles_that_are_bound_are_shipped_or_made_on_the_page(page: Path) -> None:
    shipped = {item["metadata"]["name"] for item in MANIFESTS if "Role" in item.get("kind", "")}

    bound = found(r"--(?:cluster)?role=([\w-]+)", page)
    assert bound <= shipped | found(r"kubectl create role ([\w-]+)", page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_labels_and_variables_are_those_of_the_program(page: Path) -> None:
    roles = {f"openrl.io/{role.value}" for role in Role}
    for label in found(r"(?<![.\w])(openrl\.io/[a-z]+)\b", page) - roles:
        assert label in SOURCES, label
    known = {option.env for option in OPTIONS.values()}
    stamped = {"OPEN_RL_TIME_SLICE_GROUP", "OPEN_RL_CLAIM_LEDGER", "OPEN_RL_ASSIGNMENT_ID"}
    ignored = {"OPEN_RL_TPU_DEVICE_CLASS", "OPEN_RL_TPU_DEVICE_DRIVER"}
    assert found(r"\b(OPEN_RL_[A-Z_]+)\b", page) <= known | stamped | ignored


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_short_names_are_those_of_the_kinds(page: Path) -> None:
    short = {
        name
        for item in MANIFESTS
        if item.get("kind") == "CustomResourceDefinition"
        for name in item["spec"]["names"]["shortNames"]
    }

    for kinds in found(r"kubectl (?:get|describe|delete) ((?:o\w\w)(?:,\w+)*)\b", page):
        assert {kind for kind in kinds.split(",") if kind.startswith("o")} <= short, kinds
