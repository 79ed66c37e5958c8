"""The data that measurements pass to the report: one sample per scenario, contender and round, and the
environment.

A run writes one JSON file, a `Results`. The tables derive from it alone, so they can be rendered again.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.errors import NotMeasurable
from e2e.controlplane.cluster import CHECKOUT
from e2e.controlplane.processes.binaries import kubernetes_version


class Sample(Struct, frozen=True, kw_only=True):
    """One measurement. Times are in seconds. Request counts cover the whole measurement."""

    scenario: str
    contender: str
    workers: int
    """Concurrent reconciles or writers."""
    round: int
    operations: int
    """Divisor of the costs: number of placements, hand-offs, moves or decisions."""
    seconds: float
    cpu_seconds: float = 0.0
    cpu_wait_seconds: float = 0.0
    """Time that the contender was runnable without a CPU: the effect of other load on the machine."""
    plane_cpu_seconds: dict[str, float] = {}
    """CPU time of the control plane's components during the measurement."""
    rss_peak_bytes: int = 0
    requests: dict[str, int] = {}
    """By verb and resource, without Events."""
    events: int = 0
    latencies: dict[str, list[float]] = {}
    notes: dict[str, float] = {}
    """Further values by name."""
    load_before: float = 0.0
    """The machine's one-minute load average at the start."""


class RunEnvironment(Struct, frozen=True, kw_only=True):
    """The commit, machine and software of a run."""

    commit: str
    modified: bool
    """Whether tracked files differ from the commit."""
    started: str
    """RFC 3339, UTC."""
    machine: dict[str, str]
    software: dict[str, str]
    arguments: list[str]


class Results(Struct, frozen=True, kw_only=True):
    """The results of one run."""

    facts: RunEnvironment
    samples: list[Sample]

    def write(self, path: Path) -> None:
        """Write the results as JSON. Create missing folders."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read results. Raises `OSError`, or `msgspec.DecodeError` for any other file."""
        return msgspec.json.decode(path.read_bytes(), type=cls)


PACKAGES = ("aiohttp", "msgspec", "pydantic", "uvloop")
GIB = 1 << 30


def gather(arguments: Sequence[str]) -> RunEnvironment:
    """Return the environment of a run that starts now. Raises `NotMeasurable` outside a git checkout."""
    return RunEnvironment(
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
        result = subprocess.run(
            ["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotMeasurable(f"{CHECKOUT}: cannot read the commit from git") from error
    return result.stdout.strip()
