"""What was measured, and on which machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.errors import NotMeasurable
from bench.samples import Facts
from e2e.controlplane.binaries import kubernetes_version
from e2e.controlplane.cluster import CHECKOUT

PACKAGES = ("aiohttp", "msgspec", "pydantic", "uvloop")
GIB = 1 << 30


def gather(arguments: Sequence[str]) -> Facts:
    """The facts of a run that begins now. Raises `NotMeasurable` outside of a git checkout."""
    return Facts(
        commit=_git("rev-parse", "HEAD"),
        modified=bool(_git("status", "--porcelain", "--untracked-files=no")),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=_machine(),
        software={
            "Kubernetes": kubernetes_version(),
            "Python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        arguments=list(arguments),
    )


def _machine() -> dict[str, str]:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_bytes / GIB:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load average": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == "model name"), "unknown")


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotMeasurable(f"{CHECKOUT}: git does not tell the commit that is measured") from error
    return answer.stdout.strip()
