"""Commands on the pages name folders, files, roles, labels, variables and log messages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from controller.config.flags import OPTIONS
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
    for folder in ("controller", "informers", "ledger", "placement", "manifests")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".yaml"}
)


def matches(pattern: str, page: Path) -> set[str]:
    return set(re.findall(pattern, page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_applied_folders_and_files_exist(page: Path) -> None:
    for folder in matches(r"-k (manifests[\w/-]*)", page):
        assert (ROOT / folder / "kustomization.yaml").is_file(), folder
    for file in matches(r"-f (manifests/\S+)", page):
        assert (ROOT / file).is_file(), file


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_bound_roles_are_in_the_manifests_or_created_on_the_page(page: Path) -> None:
    shipped = {item["metadata"]["name"] for item in MANIFESTS if "Role" in item.get("kind", "")}

    bound = matches(r"--(?:cluster)?role=([\w-]+)", page)
    assert bound <= shipped | matches(r"kubectl create role ([\w-]+)", page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_labels_and_variables_exist_in_the_program(page: Path) -> None:
    roles = {f"openrl.io/{role.value}" for role in Role}
    for label in matches(r"(?<![.\w])(openrl\.io/[a-z]+)\b", page) - roles:
        assert label in SOURCES, label
    known = {option.env for option in OPTIONS.values()}
    pod_variables = {"OPEN_RL_TIME_SLICE_GROUP", "OPEN_RL_CLAIM_LEDGER", "OPEN_RL_ASSIGNMENT_ID"}
    ignored = {"OPEN_RL_TPU_DEVICE_CLASS", "OPEN_RL_TPU_DEVICE_DRIVER"}
    of_the_daemon = {"OPEN_RL_ACCEL_TIMESLICER_HOST"}
    assert matches(r"\b(OPEN_RL_[A-Z_]+)\b", page) <= known | pod_variables | ignored | of_the_daemon


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_short_names_exist_in_the_crds(page: Path) -> None:
    short = {
        name
        for item in MANIFESTS
        if item.get("kind") == "CustomResourceDefinition"
        for name in item["spec"]["names"]["shortNames"]
    }

    for kinds in matches(r"kubectl (?:get|describe|delete) ((?:o\w\w)(?:,\w+)*)\b", page):
        assert {kind for kind in kinds.split(",") if kind.startswith("o")} <= short, kinds


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_log_messages_exist_in_the_program(page: Path) -> None:
    for message in matches(r"(?:log record|warning|status write) \(?`([^`]+)`", page):
        assert f'"{message}"' in SOURCES, message
