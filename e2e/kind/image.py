"""Building the controller's image, with or without a network in the build.

The Dockerfile decides nothing by itself: if wheels lie beside it they are used, otherwise pip downloads. Here
the wheels are fetched first, for the Python of the base, by the hashes of the lock files. The build context
is a copy, so that the checkout stays as it is and builds do not meet.
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
    """Build the checkout's image as `tag`. An empty `base` is the Dockerfile's; `wheels` fetches them first.

    Raises ToolFailed; InvalidArgument where wheels are wanted for a base that is not named.
    """
    arguments = {"REVISION": _git("rev-parse", "HEAD"), "CREATED": _git("log", "-1", "--format=%cI")}
    with tempfile.TemporaryDirectory(prefix="openrl-image-") as folder:
        context = Path(folder)
        _copy_context(context)
        if wheels:
            if not base:
                raise InvalidArgument("WHEELS=true needs BASE: the wheels are fetched for its Python")
            _fetch_wheels(context, _python_version(tools, base))
        options = [f"--build-arg={name}={value}" for name, value in arguments.items() if value]
        if base:
            options.append(f"--build-arg=BASE={base}")
        tools.run("docker", "build", "--tag", tag, *options, str(context), timeout_seconds=BUILD_SECONDS)


def _copy_context(folder: Path) -> None:
    """Copy what `.dockerignore` lets in, and the files that steer the build."""
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
        raise InvalidArgument("requirements-dev.txt: no setuptools, which builds the package")
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
    """Ask git about the checkout; an empty answer where it is none."""
    try:
        return (
            Tools(own_environment())
            .run("git", "-C", str(CHECKOUT), *arguments, timeout_seconds=ASK_SECONDS)
            .strip()
        )
    except ToolFailed:
        return ""
