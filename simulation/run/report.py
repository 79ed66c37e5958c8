"""What is printed of runs: a failure with all that is needed to look into it, and the summary of a batch.

Plain text in fixed columns, the same for the same run: it can be compared, searched and quoted.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from simulation.checks.coverage import BATCH_MIN, POINTS, missing
from simulation.engine.fault_plan import FAULTS
from simulation.engine.trace import TraceEvent
from simulation.run.simulate import RunOutcome

EVENTS_SHOWN = 40
FAILURES_SHOWN = 12
WIDTH = 118

_COLUMNS = (("time", 10), ("process", 18), ("verb", 10), ("kind", 18), ("name", 34), ("outcome", 0))


def replay_command(seed: int, without: Collection[str] = ()) -> str:
    """The command that runs a seed again."""
    return " ".join(["python -m simulation --seed", str(seed), *(f"--without {name}" for name in without)])


def run_report(outcome: RunOutcome, *, without: Collection[str] = ()) -> Iterator[str]:
    """The lines about one run; its last events only if it failed."""
    verdict = "passed" if outcome.passed else "FAILED"
    minutes = f"{outcome.seconds / 60:.1f} virtual minutes"
    yield f"seed {outcome.seed} {verdict}: {minutes}, {outcome.events_total} events"
    yield f"  scenario  {outcome.scenario}"
    yield from _wrapped("  faults    ", str(outcome.plan))
    if outcome.passed:
        return
    yield f"  replay    {replay_command(outcome.seed, without)}"
    yield "what was wrong"
    yield from (f"  {text}" for text in outcome.failures[:FAILURES_SHOWN])
    if len(outcome.failures) > FAILURES_SHOWN:
        yield f"  and {len(outcome.failures) - FAILURES_SHOWN} more"
    yield "last events"
    yield from event_table(outcome.last_events[-EVENTS_SHOWN:])


def event_table(events: Iterable[TraceEvent]) -> Iterator[str]:
    """Events in fixed columns, a heading first; what is too long for its column is cut."""
    yield _row([name for name, _ in _COLUMNS])
    for event in events:
        yield _row([f"{event.seconds:.3f}", event.process, event.verb, event.kind, event.name, event.outcome])


def _row(cells: list[str]) -> str:
    placed = [
        cell
        if not width
        else f"{cell[: width - 1]:>{width - 1}} "
        if name == "time"
        else f"{cell[: width - 1]:<{width}}"
        for cell, (name, width) in zip(cells, _COLUMNS, strict=True)
    ]
    return f"  {''.join(placed)}".rstrip()


@dataclass
class Summary:
    """What a batch of runs came to."""

    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    virtual_seconds: float = 0.0
    real_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: RunOutcome) -> None:
        """Count a run, and its second run with it."""
        self.seeds += 1
        self.virtual_seconds += outcome.seconds
        self.faults.update(outcome.plan.drawn.keys())
        self.points.update(outcome.sometimes)
        if not outcome.passed:
            self.failed.append(outcome.seed)

    @property
    def missed(self) -> list[str]:
        """Points that this batch should have hit and did not; none for a batch too small to tell."""
        return missing(self.points) if self.seeds >= BATCH_MIN else []

    @property
    def passed(self) -> bool:
        """Whether every run passed and the batch was not vacuous."""
        return not self.failed and not self.missed

    def lines(self) -> Iterator[str]:
        """The summary for people."""
        minutes = self.real_seconds / 60
        pace = f", {self.seeds / minutes:.0f} seeds/min" if minutes else ""
        yield f"{self.seeds} seeds, each run twice; {self.virtual_seconds / 3600:.1f} virtual hours{pace}"
        yield "faults drawn (runs that had them)"
        yield from _counts(self.faults, FAULTS)
        yield "what must happen sometimes (times)"
        yield from _counts(self.points, POINTS)
        if self.missed:
            yield f"never hit: {', '.join(self.missed)}"
        elif self.seeds < BATCH_MIN:
            yield f"fewer than {BATCH_MIN} seeds: not all points need to be hit"
        yield f"failed: {', '.join(map(str, self.failed))}" if self.failed else "no seed failed"


def _counts(counts: Mapping[str, int], names: Iterable[str]) -> Iterator[str]:
    cells = [f"{name} {counts.get(name, 0)}" for name in names]
    yield from _wrapped("  ", "; ".join(cells))


def _wrapped(indent: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent), break_on_hyphens=False
    )
