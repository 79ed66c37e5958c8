"""Builds the controller's image, with or without network access during the build.

If wheels are next to the Dockerfile, the build uses them; otherwise pip downloads them. This module can
download the wheels first, for the Python version of the base and with the hashes of the lock files. The build
context is a copy, so that builds change no file of the checkout and can run concurrently.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from e2e.controlplane.cluster import CHECKOUT
from e2e.controlplane.errors import InvalidArgument
from e2e.kind.tools import ToolFailed, Tools, own_environment

BUILD_SECONDS = 900
FETCH_SECONDS = 600
ASK_SECONDS = 60

PYTHON_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
BUILD_BACKEND = re.compile(r"^setuptools==.*?[^\\]$", re.MULTILINE | re.DOTALL)


def build_image(tools: Tools, tag: str, *, base: str = "", wheels: bool = False) -> None:
    """Build an image of the checkout with tag `tag`. By default, `base` is that of the Dockerfile.

    With `wheels`, download the wheels first. Raises `ToolFailed`, or `InvalidArgument` for wheels without a
    base.
    """
    arguments = {"REVISION": _git("rev-parse", "HEAD"), "CREATED": _git("log", "-1", "--format=%cI")}
    with tempfile.TemporaryDirectory(prefix="openrl-image-") as folder:
        context = Path(folder)
        _copy_context(context)
        if wheels:
            if not base:
                raise InvalidArgument("WHEELS=true needs BASE: wheels are downloaded for its Python version")
            _fetch_wheels(context, _python_version(tools, base))
        options = [f"--build-arg={name}={value}" for name, value in arguments.items() if value]
        if base:
            options.append(f"--build-arg=BASE={base}")
        tools.run("docker", "build", "--tag", tag, *options, str(context), timeout_seconds=BUILD_SECONDS)


def _copy_context(folder: Path) -> None:
    """Copy the files that `.dockerignore` allows and those that control the build."""
    ignore = CHECKOUT / ".dockerignore"
    let_in = [line.removeprefix("!") for line in ignore.read_text().splitlines() if line.startswith("!")]
    for name in ("Dockerfile", ignore.name, *let_in):
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copyfile(source, folder / name)


def _fetch_wheels(context: Path, python_version: str) -> None:
    backend = BUILD_BACKEND.search((context / "requirements-dev.txt").read_text())
    if backend is None:
        raise InvalidArgument("requirements-dev.txt: setuptools is missing, which builds the package")
    pip = Tools({**own_environment(), "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as build:
        build.write(f"{backend.group()}\n")
        build.flush()
        for requirements in (str(context / "requirements.txt"), build.name):
            pip.run(
                Path(sys.executable),
                *("-m", "pip", "download", "--quiet", "--require-hashes", "--only-binary=:all:", "--no-deps"),
                *("--python-version", python_version, "--dest", str(context / "wheels")),
                *("--requirement", requirements),
                timeout_seconds=FETCH_SECONDS,
            )


def _python_version(tools: Tools, base: str) -> str:
    command = ("run", "--rm", "--network=none", "--entrypoint=python3", base, "-c", PYTHON_VERSION)
    return tools.run("docker", *command, timeout_seconds=ASK_SECONDS).strip()


def _git(*arguments: str) -> str:
    """Return the output of git for the checkout, or an empty string if it is not a repository."""
    try:
        return (
            Tools(own_environment())
            .run("git", "-C", str(CHECKOUT), *arguments, timeout_seconds=ASK_SECONDS)
            .strip()
        )
    except ToolFailed:
        return ""
