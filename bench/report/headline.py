"""The performance targets of the project. The bounds are defined only here.

A measure whose scenario was not part of the run has no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bench.audit_requests import reads, work, writes
from bench.contender import ContenderInfo
from bench.percentiles import percentile
from bench.report.measured import Measured, Series, latest, speed_ratio
from bench.report.table import MET, MISSED, Table
from bench.scenarios.catalog import DECISION, FEW
from bench.scenarios.decision import Decision, sizes_of
from bench.scenarios.handoff import HandOffs
from bench.scenarios.late import LatePlacement

PLACEMENT_WRITES = 6
PLACEMENT_READS = 0
HAND_OFF_REQUESTS = 14
SPEED_RATIO = 0.8
PLACEMENT_CPU_SECONDS = 0.010
LATE_RATIO = 1.5
FREED_TO_BOOKED_P50_SECONDS = 0.015
FREED_TO_BOOKED_P99_SECONDS = 0.040
REST_CPU_SHARE = 0.01
DECISION_RATIO = 2.0

DEDICATED = ("dedicated-100", "dedicated-400")
HAND_OFFS = ("hand-off-8", "hand-off-500")
LATE, AT_REST = "late", "at-rest"

COLUMNS = ("measure", "scenario", "controller", "bare writer", "target", "met")

Row = tuple[str, ...]


def headline(measured: Measured) -> Table:
    """Return the measures in the order of the targets."""
    rows = [
        *_requests_per_placement(measured),
        *_requests_per_hand_off(measured),
        *_speed(measured),
        *_cpu(measured),
        *_late(measured),
        *_freed_to_booked(measured),
        *_at_rest(measured),
        *_decision(measured),
    ]
    return Table("Targets", COLUMNS, tuple(rows), text_columns=2)


def _row(measure: str, scenario: str, ours: str, theirs: str, bound: str, *, met: bool) -> Row:
    return measure, scenario, ours, theirs, bound, MET if met else MISSED


def _requests_per_placement(measured: Measured) -> Iterator[Row]:
    scenario = DEDICATED[0]
    for workers in measured.workers(scenario):
        ours = measured.series(scenario, ContenderInfo.CONTROLLER, workers)
        if ours is None:
            continue
        written, read = (ours.per_operation(count(ours.requests)) for count in (writes, reads))
        theirs = measured.series(scenario, ContenderInfo.BARE_WRITER, workers)
        yield _row(
            "requests per placement",
            f"{scenario}, {workers} at once",
            f"{written:.2f} writes, {read:.2f} reads",
            "" if theirs is None else f"{theirs.per_operation(work(theirs.requests)):.2f}",
            f"{PLACEMENT_WRITES} writes, {PLACEMENT_READS} reads",
            met=written <= PLACEMENT_WRITES and read <= PLACEMENT_READS,
        )


def _requests_per_hand_off(measured: Measured) -> Iterator[Row]:
    for scenario in HAND_OFFS:
        ours = measured.series(scenario, ContenderInfo.CONTROLLER, FEW)
        if ours is not None:
            sent = ours.per_operation(work(ours.requests))
            bound = f"at most {HAND_OFF_REQUESTS}"
            met = sent <= HAND_OFF_REQUESTS
            yield _row("requests per hand-off", scenario, f"{sent:.1f}", "", bound, met=met)


def _pairs(measured: Measured) -> Iterator[tuple[str, Series, Series]]:
    for scenario in DEDICATED:
        for workers in measured.workers(scenario):
            ours = measured.series(scenario, ContenderInfo.CONTROLLER, workers)
            theirs = measured.series(scenario, ContenderInfo.BARE_WRITER, workers)
            if ours is not None and theirs is not None:
                yield f"{scenario}, {workers} at once", ours, theirs


def _speed(measured: Measured) -> Iterator[Row]:
    for scenario, ours, theirs in _pairs(measured):
        ratio = speed_ratio(ours, theirs)
        yield _row(
            "placements per second",
            scenario,
            f"{ours.rate:.1f}/s, ratio {ratio:.2f}",
            f"{theirs.rate:.1f}/s",
            f"ratio at least {SPEED_RATIO}",
            met=ratio >= SPEED_RATIO,
        )


def _cpu(measured: Measured) -> Iterator[Row]:
    for scenario, ours, theirs in _pairs(measured):
        yield _row(
            "CPU per placement",
            scenario,
            _milliseconds(ours.cpu_seconds),
            _milliseconds(theirs.cpu_seconds),
            f"at most {_milliseconds(PLACEMENT_CPU_SECONDS)}",
            met=ours.cpu_seconds <= PLACEMENT_CPU_SECONDS,
        )


def _late(measured: Measured) -> Iterator[Row]:
    ours = measured.series(LATE, ContenderInfo.CONTROLLER, FEW)
    if ours is None:
        return
    theirs = measured.series(LATE, ContenderInfo.BARE_WRITER, FEW)
    full, ratio = _late_ratio(ours)
    yield _row(
        "late placement, relative to an empty fleet",
        LATE,
        f"{full}, ratio {ratio:.2f}",
        "" if theirs is None else "{}, ratio {:.2f}".format(*_late_ratio(theirs)),
        f"ratio at most {LATE_RATIO}",
        met=ratio <= LATE_RATIO,
    )


def _late_ratio(series: Series) -> tuple[str, float]:
    full, empty = (
        median(series.latencies[label]) for label in (LatePlacement.on_full, LatePlacement.on_empty)
    )
    return _milliseconds(full), full / empty


def _freed_to_booked(measured: Measured) -> Iterator[Row]:
    bounds = {50: FREED_TO_BOOKED_P50_SECONDS, 99: FREED_TO_BOOKED_P99_SECONDS}
    for scenario in HAND_OFFS:
        ours = measured.series(scenario, ContenderInfo.CONTROLLER, FEW)
        if ours is None:
            continue
        values = ours.latencies[HandOffs.freed_to_booked]
        for percent, bound in bounds.items():
            seen = percentile(values, percent)
            yield _row(
                f"{HandOffs.freed_to_booked}, p{percent} of {len(values)}",
                scenario,
                _milliseconds(seen),
                "",
                f"at most {_milliseconds(bound)}",
                met=seen <= bound,
            )


def _at_rest(measured: Measured) -> Iterator[Row]:
    ours = measured.series(AT_REST, ContenderInfo.CONTROLLER, FEW)
    if ours is None:
        return
    minutes = sum(sample.seconds for sample in ours.samples) / 60
    other = work(ours.requests)
    yield _row(
        "requests per minute, except watches and lease",
        AT_REST,
        f"{other / minutes:.1f}",
        "",
        "0",
        met=other == 0,
    )
    share = f"{ours.cpu_share * 100:.2f} % of a core"
    yield _row("CPU", AT_REST, share, "", f"under {REST_CPU_SHARE:.0%}", met=ours.cpu_share < REST_CPU_SHARE)


def _decision(measured: Measured) -> Iterator[Row]:
    samples = list(sizes_of(latest(measured.samples, DECISION.name)).values())
    if not samples:
        return
    small, large = samples[0], samples[-1]
    for label in (Decision.chosen, Decision.full):
        one, other = (median(sample.latencies[label]) for sample in (small, large))
        yield _row(
            label,
            f"{large.workers} claims vs. {small.workers}",
            f"{other * 1e6:.1f} µs vs. {one * 1e6:.1f}, ratio {other / one:.2f}",
            "",
            f"ratio at most {DECISION_RATIO:g}",
            met=other / one <= DECISION_RATIO,
        )


def _milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms"
