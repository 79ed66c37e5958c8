"""Demos in their own processes, in an environment with only a path and a home folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 90
"""The timeout of a demo, ten times what an idle machine needs."""
SMALL = ("--nodes=1", "--gpus=2")


def demo(
    *arguments: str, module: str = "simulation.demo", path: str | None = None, home: Path
) -> subprocess.CompletedProcess[str]:
    """Run a demo to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=_environment(home, path),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


@contextmanager
def started(*arguments: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a demo, and kill it at the end of the block if it still runs."""
    command = [sys.executable, "-u", "-m", "simulation.demo", *arguments]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=_environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return the output up to the line that contains `text`."""
    assert process.stdout is not None
    shown = ""
    for line in process.stdout:
        shown += line
        if text in line:
            return shown
    raise AssertionError(f"{text!r} was not printed: {shown}")


def _environment(home: Path, path: str | None = None) -> dict[str, str]:
    folder = str(home)
    return {"PATH": path or "/usr/bin:/bin", "HOME": folder, "XDG_CACHE_HOME": folder, "TMPDIR": folder}
