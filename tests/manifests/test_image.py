"""Tests of the Dockerfile: its user, entry point, contents and hashed requirements."""

from __future__ import annotations

import re
import tomllib

from tests.manifests.test_deployment import POD
from tests.manifests.tree import CHECKOUT

INSTRUCTIONS = re.sub(r"\\\n\s*", "", (CHECKOUT / "Dockerfile").read_text()).splitlines()
ROOTS = {"controller", "informers", "ledger", "placement", "simulation"}
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def instructions(name: str) -> list[str]:
    return [line.removeprefix(name).strip() for line in INSTRUCTIONS if line.startswith(f"{name} ")]


def test_the_user_is_numeric_and_not_root() -> None:
    """The Deployment names no user. The kubelet verifies `runAsNonRoot` for numeric users only."""
    (user,) = instructions("USER")

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert POD["securityContext"]["runAsNonRoot"]


def test_the_entry_point_is_the_program_without_a_shell() -> None:
    assert instructions("ENTRYPOINT") == ['["open-rl-scheduler"]']
    assert "open-rl-scheduler" in PROJECT["project"]["scripts"]
    assert instructions("CMD") == []


def test_the_version_is_the_projects() -> None:
    assert f"VERSION={PROJECT['project']['version']}" in instructions("ARG")


def test_the_image_and_the_program_carry_the_commit() -> None:
    assert instructions("ARG").count("REVISION=unknown") == 2
    assert any("build.json" in line and "${REVISION}" in line for line in instructions("RUN"))


def test_the_build_does_not_need_buildkit() -> None:
    assert not [line for line in INSTRUCTIONS if "--mount" in line or "<<" in line or "--link" in line]


def test_both_stages_use_the_base_argument() -> None:
    assert instructions("ARG")[0] == "BASE=python:3.11-slim"
    assert [line.split()[0] for line in instructions("FROM")] == ["${BASE}", "${BASE}"]


def test_every_download_is_checked_against_a_hash() -> None:
    commands = [part for line in instructions("RUN") for part in line.split("&&")]
    pip = [command for command in commands if "pip " in command.replace("-pip ", "")]

    assert len(pip) == 4
    for command in pip:
        if " wheel " in command:
            assert "--no-deps --no-build-isolation" in command
        else:
            assert "--require-hashes" in command or "--no-index --no-deps" in command


def test_the_build_back_end_is_locked_in_the_development_requirements() -> None:
    (requirement,) = PROJECT["build-system"]["requires"]
    name = requirement.split(">=")[0]
    locked = (CHECKOUT / "requirements-dev.txt").read_text()

    assert re.search(rf"^{name}==\S+ \\\n +--hash=sha256:", locked, re.MULTILINE)
    assert any(f"/^{name}==/" in line for line in instructions("RUN"))


def test_the_build_context_holds_exactly_the_copied_files() -> None:
    ignored = (CHECKOUT / ".dockerignore").read_text().splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        word.rstrip("/").replace("[s]", "s")  # a pattern, since that folder is optional
        for line in instructions("COPY")
        if not line.startswith("--from")
        for word in line.split()[:-1]
    }
    included = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = {pattern.rstrip("*").replace(".", "/") for pattern in included}

    assert ignored[1] == "*"
    assert copied == let_in
    assert packages & copied == packages - {"simulation", "manifests/crds"}
    assert PROJECT["project"]["readme"] in copied


def test_the_packages_of_the_image_import_nothing_that_it_lacks() -> None:
    """The simulation is for developers. Import contracts keep production packages independent of it."""
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    packages = {line.split("/")[0] for line in instructions("COPY") if line.split("/")[0] in ROOTS}

    assert any(
        packages <= set(contract.get("source_modules", ())) and "simulation" in contract["forbidden_modules"]
        for contract in contracts
        if contract["type"] == "forbidden"
    )
    assert "simulation" not in packages
