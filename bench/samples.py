"""What a measurement hands to the report: one sample for each scenario, contender and round, and the run's
facts.

The JSON file that a run writes is a `Results`; the tables are made from it alone, so that they can be
made again.

What was measured, and on which machine.
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
    """One measurement. Times are seconds; request counts are of the whole measurement, not per operation."""

    scenario: str
    contender: str
    workers: int
    """Reconciles (or writers) at once."""
    round: int
    operations: int
    """What the costs are divided by: placements, hand-offs, moves, decisions."""
    seconds: float
    cpu_seconds: float = 0.0
    cpu_wait_seconds: float = 0.0
    """How long the contender was ready and had no processor: the load of the machine as it met it."""
    plane_cpu_seconds: dict[str, float] = {}
    """CPU time of the control plane's components meanwhile."""
    rss_peak_bytes: int = 0
    requests: dict[str, int] = {}
    """By verb and resource, without Events."""
    events: int = 0
    latencies: dict[str, list[float]] = {}
    notes: dict[str, float] = {}
    """Whatever else is worth a look, by its name."""
    load_before: float = 0.0
    """The machine's load average over one minute when it began."""


class RunEnvironment(Struct, frozen=True, kw_only=True):
    """What was measured, and on what."""

    commit: str
    modified: bool
    """Whether tracked files differed from the commit."""
    started: str
    """RFC 3339, UTC."""
    machine: dict[str, str]
    software: dict[str, str]
    arguments: list[str]


class Results(Struct, frozen=True, kw_only=True):
    """One run."""

    facts: RunEnvironment
    samples: list[Sample]

    def write(self, path: Path) -> None:
        """Write the run as JSON; folders are made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        """Raises `OSError`, or `msgspec.DecodeError` for another file."""
        return msgspec.json.decode(path.read_bytes(), type=cls)


PACKAGES = ("aiohttp", "msgspec", "pydantic", "uvloop")
GIB = 1 << 30


def gather(arguments: Sequence[str]) -> RunEnvironment:
    """The facts of a run that begins now. Raises `NotMeasurable` outside of a git checkout."""
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
        answer = subprocess.run(
            ["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotMeasurable(f"{CHECKOUT}: git does not tell the commit that is measured") from error
    return answer.stdout.strip()
