"""What a measurement hands to the report: one sample for each scenario, contender and round, and the run's
facts.

The JSON file that a run writes is a `Results`; the tables are made from it alone, so that they can be
made again.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct


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


class Facts(Struct, frozen=True, kw_only=True):
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

    facts: Facts
    samples: list[Sample]

    def write(self, path: Path) -> None:
        """Write the run as JSON; folders are made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @classmethod
    def read(cls, path: Path) -> Results:
        """Raises `OSError`, or `msgspec.DecodeError` for another file."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
