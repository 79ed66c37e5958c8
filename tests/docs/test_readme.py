"""Commands, paths, links and the example on the README and the pages work."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from controller.api.reasons import ReasonCode
from controller.api.requests import PlacementRequests
from controller.api.workload import WORKLOADS
from controller.config.flags import OPTIONS
from simulation.demo.cli import cli as demo
from tests.docs.settings_table import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = PAGES[0].read_text(encoding="utf-8")
README_LINES_MAX = 120
DEVELOPMENT = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PACKAGES = ("informers", "controller", "placement", "ledger", "simulation", "bench")


def matches(pattern: str, text: str) -> list[str]:
    return re.findall(pattern, text, re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = matches(r"^#+ (.+)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def test_the_readme_stays_short() -> None:
    assert README.count("\n") <= README_LINES_MAX


def test_the_example_is_a_workload_that_the_controller_accepts() -> None:
    (example,) = matches(r"^```yaml\n((?:.|\n)*?)^```", README)
    workload = WORKLOADS.decode(json.dumps(yaml.safe_load(example)).encode())

    assert PlacementRequests(2, "gpu.example.com").validate(workload).shareable


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for link in re.finditer(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text(encoding="utf-8")):
        target, anchor = link[1], link[2]
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    for target in matches(r"(?:^|[`…] ?|&& )make ([a-z0-9-]+)", page.read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_files_in_code_font_exist(page: Path) -> None:
    folders = "|".join((*PACKAGES, "tests", "e2e", "docs", "manifests", "examples"))
    for path in matches(rf"`((?:{folders})/[\w/.-]*)`", page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_dotted_names_in_code_font_are_modules_or_defined_in_one(page: Path) -> None:
    for name in matches(
        rf"`((?:{'|'.join(PACKAGES)})(?!\.openrl\.io)(?:\.\w+)+)[`(]", page.read_text(encoding="utf-8")
    ):
        assert is_defined(name), name


def is_defined(name: str) -> bool:
    """Whether a dotted name is a module, a folder of modules, or a name in a module."""
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent.with_suffix(".py")
    return module.is_file() and re.search(rf"\b{path.name}\b", module.read_text(encoding="utf-8")) is not None


def test_the_folder_tour_begins_with_the_packages_of_the_flow() -> None:
    listed = matches(r"^\| `(\w+)/` \|", DEVELOPMENT)

    assert [name for name in listed if not (ROOT / name).is_dir()] == []
    assert listed[:4] == ["informers", "controller", "placement", "ledger"]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_folder_tour_lists_every_room_once(package: str) -> None:
    listed = matches(rf"^\| `{package}/(\w+)/` \|", DEVELOPMENT)
    rooms = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}

    assert sorted(listed) == sorted(rooms)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_flags_of_the_program_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    flags = {option.flag for option in OPTIONS.values()}
    demo_flags = {name for parameter in demo.params for name in parameter.opts}

    for command in matches(r"open-rl-scheduler ([^\n`|#]*)", text):
        known = demo_flags if command.startswith("demo ") else flags
        for flag in matches(r"(?<!\S)(--[a-z-]+)", command):
            assert flag in {*known, "--help"}, flag


def test_the_quoted_reason_begins_with_a_code() -> None:
    (quoted,) = matches(r"^```text\n(\w+): .*\n```", README)

    assert quoted in {code.value for code in ReasonCode}
