"""The targets of the informers and their figures. The bounds are defined only here.

The machine may run other processes. A stall is therefore judged by the CPU time of the loop's thread, and a
rate by the time without CPU waits. The wall time is shown as context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from bench.percentiles import ratio_of_pairs
from bench.report.table import MET, MISSED, Table
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

COLUMNS = ("measure", "workload", "result", "context", "target", "met")
Row = tuple[str, ...]


def informer_samples(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples of informer scenarios."""
    return [sample for sample in samples if sample.scenario.partition("/")[0] in INFORMER_NAMES]


def targets(samples: Sequence[Sample]) -> Table:
    """Return the measures in the order of the scenarios. A scenario that did not run has no row."""
    rows = [
        *_sync(samples),
        *_held(samples),
        *_memory(samples),
        *_stalls(samples),
        *_events(samples),
        *_queue(samples),
    ]
    return Table("Informer targets", COLUMNS, tuple(rows), text_columns=2)


def figures(samples: Sequence[Sample]) -> Table:
    """Return every sample of the informers, by round."""
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
        "reader",
        "Pods (delayed keys)",
        "round",
        "operations",
        "seconds",
        "CPU seconds",
        "CPU wait seconds",
        "peak RSS MiB",
        "longest stall in ms: wall, CPU, GC",
        "load before",
    )
    return Table("Informers by round", columns, tuple(rows), text_columns=2)


def _stall(sample: Sample) -> str:
    names = ("stall_wall_seconds", "stall_cpu_seconds", "stall_collection_seconds")
    return ", ".join(f"{sample.notes[name] * 1000:.1f}" for name in names if name in sample.notes)


def _row(measure: str, workload: str, result: str, context: str, bound: str, *, met: bool) -> Row:
    return measure, workload, result, context, bound, MET if met else MISSED


def _of(samples: Sequence[Sample], scenario: str, contender: str = "") -> list[Sample]:
    return [s for s in samples if s.scenario == scenario and contender in ("", s.contender)]


def _sync(samples: Sequence[Sample]) -> Iterator[Row]:
    ours = _of(samples, "informers-sync", INFORMER)
    bounds: tuple[tuple[str, str, Callable[[float], bool]], ...] = (
        (TYPED, f"at least {TYPED_RATIO:g} times less", lambda ratio: ratio <= 1 / TYPED_RATIO),
        (PLAIN, f"at most {PLAIN_RATIO:g} times as much", lambda ratio: ratio <= PLAIN_RATIO),
    )
    for other, bound, is_met in bounds:
        baseline = _of(samples, "informers-sync", other)
        if not ours or not baseline:
            continue
        by_clock = ratio_of_pairs([s.seconds for s in ours], [s.seconds for s in baseline])
        by_cpu = ratio_of_pairs([s.cpu_seconds for s in ours], [s.cpu_seconds for s in baseline])
        yield _row(
            f"first list, compared with {_NAMES[other]}",
            f"{ours[0].workers:,} Pods",
            f"{_times(ours)}: {_quotient(by_clock)} time, {_quotient(by_cpu)} CPU time",
            _times(baseline),
            bound,
            met=is_met(by_clock) and is_met(by_cpu),
        )


_NAMES = {TYPED: "typed models", PLAIN: "plain JSON decoding"}


def _quotient(ratio: float) -> str:
    return f"{1 / ratio:.1f} times less" if ratio < 1 else f"{ratio:.2f} times as much"


def _times(samples: Sequence[Sample]) -> str:
    return f"{median(s.seconds for s in samples):.2f} s, {median(s.cpu_seconds for s in samples):.2f} s CPU"


def _rates(samples: Sequence[Sample]) -> list[float]:
    """Return operations per second without CPU waits, by round."""
    return [s.operations / (s.seconds - s.cpu_wait_seconds) for s in samples]


def _rate_with_waits(samples: Sequence[Sample]) -> str:
    rate = median(s.operations / s.seconds for s in samples)
    return f"{rate:,.0f}/s including CPU waits"


def _held(samples: Sequence[Sample]) -> Iterator[Row]:
    for sample in _of(samples, "informers-held"):
        each = sample.notes["held_bytes_each"]
        yield _row(
            "memory per foreign Pod",
            f"{sample.workers:,} Pods",
            f"{each:.0f} bytes",
            "",
            f"at most {HELD_BYTES} bytes",
            met=each <= HELD_BYTES,
        )


def _memory(samples: Sequence[Sample]) -> Iterator[Row]:
    for sample in _of(samples, "informers-memory"):
        synced = sample.notes["synced_rss_peak_bytes"]
        yield _row(
            "peak resident set of the controller",
            f"{sample.workers:,} Pods, 2 relists",
            f"{sample.rss_peak_bytes / MIB:.0f} MiB",
            f"{synced / MIB:.0f} MiB when synced",
            f"at most {PROGRAM_BYTES / MIB:.0f} MiB",
            met=sample.rss_peak_bytes <= PROGRAM_BYTES,
        )


def _stalls(samples: Sequence[Sample]) -> Iterator[Row]:
    for part in dict.fromkeys(s.scenario for s in samples if s.scenario.startswith("informers-relist/")):
        if part.endswith("first list"):
            continue
        rounds = _of(samples, part)
        wall = [s.notes["stall_wall_seconds"] * 1000 for s in rounds]
        cpu_seconds = max(s.notes["stall_cpu_seconds"] for s in rounds)
        yield _row(
            "longest event loop stall in a relist",
            f"{rounds[0].workers:,} Pods, {part.partition('/')[2]}",
            f"{cpu_seconds * 1000:.1f} ms of CPU time",
            f"{min(wall):.0f} to {max(wall):.0f} ms of wall time",
            f"under {STALL_SECONDS * 1000:.0f} ms",
            met=cpu_seconds < STALL_SECONDS,
        )


def _events(samples: Sequence[Sample]) -> Iterator[Row]:
    ours = _of(samples, "informers-events")
    if ours:
        rate = median(_rates(ours))
        each_seconds = median(s.cpu_seconds / s.operations for s in ours)
        yield _row(
            "events from one watch into the store",
            f"{ours[0].workers:,} Pods, {ours[0].operations:,} events",
            f"{rate:,.0f}/s",
            f"{_rate_with_waits(ours)}, {each_seconds * 1e6:.1f} µs CPU each",
            f"at least {EVENTS_PER_SECOND:,}/s",
            met=rate >= EVENTS_PER_SECOND,
        )


def _queue(samples: Sequence[Sample]) -> Iterator[Row]:
    by_delayed: dict[int, list[Sample]] = {}
    for sample in _of(samples, "informers-queue"):
        by_delayed.setdefault(sample.workers, []).append(sample)
    for delayed, found in sorted(by_delayed.items()):
        rate = median(_rates(found))
        yield _row(
            "queue cycles (add, get, done) with metrics",
            f"{delayed:,} delayed keys",
            f"{rate:,.0f}/s",
            _rate_with_waits(found),
            f"at least {CYCLES_PER_SECOND:,}/s",
            met=rate >= CYCLES_PER_SECOND,
        )
    if len(by_delayed) > 1:
        few, many = ([s.cpu_seconds for s in by_delayed[d]] for d in (min(by_delayed), max(by_delayed)))
        ratio = ratio_of_pairs(many, few)
        yield _row(
            "CPU time of queue cycles with delayed keys",
            f"{max(by_delayed):,} vs. {min(by_delayed):,}",
            f"{ratio:.2f} times as much",
            "",
            f"at most {DELAYED_RATIO:g} times",
            met=ratio <= DELAYED_RATIO,
        )
