"""Printed reports: a failed run with all details needed to debug it, and the summary of a batch.

Plain text in fixed columns, equal for equal runs, so that it can be compared, searched and quoted.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from simulation.checks.coverage import BATCH_MIN, POINTS, missed_points
from simulation.engine.fault_plan import FAULTS
from simulation.engine.trace import TraceEvent
from simulation.run.simulate import RunOutcome

EVENTS_SHOWN = 40
FAILURES_SHOWN = 12
WIDTH = 118

_COLUMNS = (("time", 10), ("process", 18), ("verb", 10), ("kind", 18), ("name", 34), ("outcome", 0))


def replay_command(seed: int, without: Collection[str] = ()) -> str:
    """Return the command that runs a seed again."""
    return " ".join(["python -m simulation --seed", str(seed), *(f"--without {name}" for name in without)])


def run_report(outcome: RunOutcome, *, without: Collection[str] = ()) -> Iterator[str]:
    """Yield the lines about one run; a failed run includes its last events."""
    result = "passed" if outcome.passed else "FAILED"
    minutes = f"{outcome.seconds / 60:.1f} virtual minutes"
    yield f"seed {outcome.seed} {result}: {minutes}, {outcome.events_total} events"
    yield f"  scenario  {outcome.scenario}"
    yield from _wrapped("  faults    ", str(outcome.plan))
    if outcome.passed:
        return
    yield f"  replay    {replay_command(outcome.seed, without)}"
    yield "violations"
    yield from (f"  {text}" for text in outcome.failures[:FAILURES_SHOWN])
    if len(outcome.failures) > FAILURES_SHOWN:
        yield f"  and {len(outcome.failures) - FAILURES_SHOWN} more"
    yield "last events"
    yield from event_table(outcome.last_events[-EVENTS_SHOWN:])


def event_table(events: Iterable[TraceEvent]) -> Iterator[str]:
    """Yield a heading and the events in fixed columns, truncated to the column width."""
    yield _row([name for name, _ in _COLUMNS])
    for event in events:
        yield _row([f"{event.seconds:.3f}", event.process, event.verb, event.kind, event.name, event.outcome])


def _row(cells: list[str]) -> str:
    padded = [
        cell
        if not width
        else f"{cell[: width - 1]:>{width - 1}} "
        if name == "time"
        else f"{cell[: width - 1]:<{width}}"
        for cell, (name, width) in zip(cells, _COLUMNS, strict=True)
    ]
    return f"  {''.join(padded)}".rstrip()


@dataclass
class Summary:
    """The totals of a batch."""

    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    virtual_seconds: float = 0.0
    real_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: RunOutcome) -> None:
        """Add the outcome of a seed."""
        self.seeds += 1
        self.virtual_seconds += outcome.seconds
        self.faults.update(outcome.plan.faults.keys())
        self.points.update(outcome.coverage)
        if not outcome.passed:
            self.failed.append(outcome.seed)

    @property
    def missed(self) -> list[str]:
        """The points that this batch never hit; empty for a batch that is too small to judge."""
        return missed_points(self.points) if self.seeds >= BATCH_MIN else []

    @property
    def passed(self) -> bool:
        """Whether every run passed and every coverage point was hit."""
        return not self.failed and not self.missed

    def lines(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        minutes = self.real_seconds / 60
        pace = f", {self.seeds / minutes:.0f} seeds/min" if minutes else ""
        yield f"{self.seeds} seeds, each run twice; {self.virtual_seconds / 3600:.1f} virtual hours{pace}"
        yield "faults (number of seeds)"
        yield from _counts(self.faults, FAULTS)
        yield "coverage points (number of hits)"
        yield from _counts(self.points, POINTS)
        if self.missed:
            yield f"never hit: {', '.join(self.missed)}"
        elif self.seeds < BATCH_MIN:
            yield f"coverage is not checked below {BATCH_MIN} seeds"
        yield f"failed: {', '.join(map(str, self.failed))}" if self.failed else "no seed failed"


def _counts(counts: Mapping[str, int], names: Iterable[str]) -> Iterator[str]:
    cells = [f"{name} {counts.get(name, 0)}" for name in names]
    yield from _wrapped("  ", "; ".join(cells))


def _wrapped(indent: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent), break_on_hyphens=False
    )
