"""Builds of Go programs from pinned modules into a user cache, one at a time for each name."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.controlplane.errors import BuildFailed, MissingTool
from e2e.controlplane.processes.guard import Guard

Progress = Callable[[str], None]


def to_stderr(line: str) -> None:
    """Report progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """Return the user's cache folder (XDG base directory specification). Relative values are ignored."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    base = configured if configured.is_absolute() else Path.home() / ".cache"
    return base / "open-rl-scheduler"


def find_go(what: str, version: str) -> str:
    """Return the path of Go. Raises `MissingTool`, which names what needs it and the version."""
    go = shutil.which("go")
    if go is None:
        raise MissingTool(
            f"Go is needed to build {what}, and is not on the PATH: install Go {version} or newer"
        )
    return go


def go_version(module: Path) -> str:
    """Return the version of Go that a module needs."""
    text = (module / "go.mod").read_text(encoding="utf-8")
    found = re.search(r"^go (\S+)$", text, re.MULTILINE)
    return found[1] if found else ""


def run_go(command: list[str], folder: Path, guard: Guard) -> str:
    """Run Go in the folder of a module, and return its output. Raises `BuildFailed`."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},  # independent of the checkout's folder
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=guard.process_group,
    )
    with process:
        try:
            output, errors = process.communicate()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        lines = errors.strip().splitlines() or [f"exit status {process.returncode}"]
        failure = BuildFailed(f"{' '.join(command[:2])} {command[-1]} failed: {lines[-1]}")
        for line in lines[-15:]:
            failure.add_note(line)
        raise failure
    return output


def lock_path(name: str) -> Path:
    """Return the lock file of the builds of this name."""
    return cache_folder() / f"{name}.lock"


@contextmanager
def build_lock(name: str, progress: Progress) -> Iterator[None]:
    """Hold the lock of the builds of this name. The operating system releases it with the process."""
    path = lock_path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise BuildFailed(f"cannot write {error.filename}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"Waiting for another build of {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
