"""What the informers are held to, and the figures behind it. The only home of these bounds.

The machine may be busy with other things. So a stall is judged by the CPU time of the loop's thread, and a
rate by the time in which there was a processor; what the clock said stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from bench.percentiles import ratio_of_pairs
from bench.report.table import MISSED, REACHED, Table
from bench.samples import Sample
from bench.scenarios.catalog import INFORMER_NAMES
from bench.scenarios.informers import INFORMER, PLAIN, TYPED

MIB = 1 << 20

TYPED_RATIO = 20.0
PLAIN_RATIO = 1.5
HELD_BYTES = 512
PROGRAM_BYTES = 256 * MIB
STALL_SECONDS = 0.050
EVENTS_PER_SECOND = 10_000
CYCLES_PER_SECOND = 50_000
DELAYED_RATIO = 1.15

COLUMNS = ("measure", "of", "figure", "beside", "to reach", "reached")
Row = tuple[str, ...]


def informer_samples(samples: Sequence[Sample]) -> list[Sample]:
    """Those that belong to the informers."""
    return [sample for sample in samples if sample.scenario.partition("/")[0] in INFORMER_NAMES]


def targets(samples: Sequence[Sample]) -> Table:
    """The measures in the order of the scenarios; one whose scenario was not part of the run has no row."""
    rows = [
        *_sync(samples),
        *_held(samples),
        *_memory(samples),
        *_stalls(samples),
        *_events(samples),
        *_queue(samples),
    ]
    return Table("Informers, against what is to be reached", COLUMNS, tuple(rows), text_columns=2)


def figures(samples: Sequence[Sample]) -> Table:
    """Every sample of the informers, round by round."""
    rows = [
        (
            sample.scenario,
            sample.contender,
            f"{sample.workers:,}",
            str(sample.round),
            f"{sample.operations:,}",
            f"{sample.seconds:.2f}",
            f"{sample.cpu_seconds:.2f}" if sample.cpu_seconds else "",
            f"{sample.cpu_wait_seconds:.2f}" if sample.cpu_wait_seconds else "",
            f"{sample.rss_peak_bytes / MIB:.0f}",
            _stall(sample),
            f"{sample.load_before:.1f}",
        )
        for sample in informer_samples(samples)
    ]
    columns = (
        "scenario",
        "who",
        "Pods (delayed keys)",
        "round",
        "operations",
        "seconds",
        "CPU seconds",
        "waited for CPU",
        "peak RSS MiB",
        "longest stall in ms: clock, CPU, collector",
        "load before",
    )
    return Table("Informers, round by round", columns, tuple(rows), text_columns=2)


def _stall(sample: Sample) -> str:
    names = ("stall_wall_seconds", "stall_cpu_seconds", "stall_collection_seconds")
    return ", ".join(f"{sample.notes[name] * 1000:.1f}" for name in names if name in sample.notes)


def _row(measure: str, of: str, figure: str, beside: str, bound: str, *, reached: bool) -> Row:
    return measure, of, figure, beside, bound, REACHED if reached else MISSED


def _of(samples: Sequence[Sample], scenario: str, contender: str = "") -> list[Sample]:
    return [s for s in samples if s.scenario == scenario and contender in ("", s.contender)]


def _sync(samples: Sequence[Sample]) -> Iterator[Row]:
    ours = _of(samples, "informers-sync", INFORMER)
    bounds: tuple[tuple[str, str, Callable[[float], bool]], ...] = (
        (TYPED, f"at least {TYPED_RATIO:g} times less", lambda ratio: ratio <= 1 / TYPED_RATIO),
        (PLAIN, f"at most {PLAIN_RATIO:g} times as much", lambda ratio: ratio <= PLAIN_RATIO),
    )
    for other, bound, reaches in bounds:
        theirs = _of(samples, "informers-sync", other)
        if not ours or not theirs:
            continue
        by_clock = ratio_of_pairs([s.seconds for s in ours], [s.seconds for s in theirs])
        by_cpu = ratio_of_pairs([s.cpu_seconds for s in ours], [s.cpu_seconds for s in theirs])
        yield _row(
            f"first list, against {_NAMES[other]}",
            f"{ours[0].workers:,} Pods",
            f"{_times(ours)}: {_quotient(by_clock)} time, {_quotient(by_cpu)} CPU time",
            _times(theirs),
            bound,
            reached=reaches(by_clock) and reaches(by_cpu),
        )


_NAMES = {TYPED: "typed models", PLAIN: "plain JSON decoding"}


def _quotient(ratio: float) -> str:
    return f"{1 / ratio:.1f} times less" if ratio < 1 else f"{ratio:.2f} times as much"


def _times(samples: Sequence[Sample]) -> str:
    return f"{median(s.seconds for s in samples):.2f} s, {median(s.cpu_seconds for s in samples):.2f} s CPU"


def _rates(samples: Sequence[Sample]) -> list[float]:
    """Operations per second in which there was a processor for them, by round."""
    return [s.operations / (s.seconds - s.cpu_wait_seconds) for s in samples]


def _rate_beside(samples: Sequence[Sample]) -> str:
    rate = median(s.operations / s.seconds for s in samples)
    return f"{rate:,.0f}/s with what it waited for a processor"


def _held(samples: Sequence[Sample]) -> Iterator[Row]:
    for sample in _of(samples, "informers-held"):
        each = sample.notes["held_bytes_each"]
        yield _row(
            "held for each foreign Pod",
            f"{sample.workers:,} Pods",
            f"{each:.0f} bytes",
            "",
            f"at most {HELD_BYTES} bytes",
            reached=each <= HELD_BYTES,
        )


def _memory(samples: Sequence[Sample]) -> Iterator[Row]:
    for sample in _of(samples, "informers-memory"):
        synced = sample.notes["synced_rss_peak_bytes"]
        yield _row(
            "largest resident set of the program",
            f"{sample.workers:,} Pods, 2 relists",
            f"{sample.rss_peak_bytes / MIB:.0f} MiB",
            f"{synced / MIB:.0f} MiB when synced",
            f"at most {PROGRAM_BYTES / MIB:.0f} MiB",
            reached=sample.rss_peak_bytes <= PROGRAM_BYTES,
        )


def _stalls(samples: Sequence[Sample]) -> Iterator[Row]:
    for part in dict.fromkeys(s.scenario for s in samples if s.scenario.startswith("informers-relist/")):
        if part.endswith("first list"):
            continue
        rounds = _of(samples, part)
        wall = [s.notes["stall_wall_seconds"] * 1000 for s in rounds]
        cpu_seconds = max(s.notes["stall_cpu_seconds"] for s in rounds)
        yield _row(
            "longest stall of the event loop in a relist",
            f"{rounds[0].workers:,} Pods, {part.partition('/')[2]}",
            f"{cpu_seconds * 1000:.1f} ms of CPU time",
            f"{min(wall):.0f} to {max(wall):.0f} ms by the clock",
            f"under {STALL_SECONDS * 1000:.0f} ms",
            reached=cpu_seconds < STALL_SECONDS,
        )


def _events(samples: Sequence[Sample]) -> Iterator[Row]:
    ours = _of(samples, "informers-events")
    if ours:
        rate = median(_rates(ours))
        each_seconds = median(s.cpu_seconds / s.operations for s in ours)
        yield _row(
            "events into the store over one watch",
            f"{ours[0].workers:,} Pods, {ours[0].operations:,} events",
            f"{rate:,.0f}/s",
            f"{_rate_beside(ours)}, {each_seconds * 1e6:.1f} µs CPU each",
            f"at least {EVENTS_PER_SECOND:,}/s",
            reached=rate >= EVENTS_PER_SECOND,
        )


def _queue(samples: Sequence[Sample]) -> Iterator[Row]:
    by_delayed: dict[int, list[Sample]] = {}
    for sample in _of(samples, "informers-queue"):
        by_delayed.setdefault(sample.workers, []).append(sample)
    for delayed, found in sorted(by_delayed.items()):
        rate = median(_rates(found))
        yield _row(
            "keys added, taken and given back, with metrics",
            f"{delayed:,} delayed keys",
            f"{rate:,.0f}/s",
            _rate_beside(found),
            f"at least {CYCLES_PER_SECOND:,}/s",
            reached=rate >= CYCLES_PER_SECOND,
        )
    if len(by_delayed) > 1:
        few, many = ([s.cpu_seconds for s in by_delayed[d]] for d in (min(by_delayed), max(by_delayed)))
        ratio = ratio_of_pairs(many, few)
        yield _row(
            "CPU time of the same with delayed keys",
            f"{max(by_delayed):,} against {min(by_delayed):,}",
            f"{ratio:.2f} times as much",
            "",
            f"at most {DELAYED_RATIO:g} times",
            reached=ratio <= DELAYED_RATIO,
        )
