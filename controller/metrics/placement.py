"""Metrics of what the program is for: who waits, who sits where, what was done about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client.core import Metric

from controller.metrics import definitions as m
from controller.metrics.exposition import Families, by, histogram, number, numbers
from controller.observe.counters import CountersStatistics
from controller.observe.gauges import GaugesStatistics
from controller.reconcile.sweep import SweepStatistics
from informers.events.recorder import RecorderStatistics
from informers.histogram import HistogramStatistics
from ledger.book import SeatBookStatistics
from placement.fleet import Capacity


def gauge_metrics(
    statistics: Callable[[], GaugesStatistics],
    capacity: Callable[[], Capacity],
    *,
    max_seats_per_claim: int,
    now: Callable[[], datetime],
) -> Families:
    """What there is, as the caches of this process show it."""

    def families() -> Iterator[Metric]:
        gauges, there = statistics(), capacity()
        yield numbers(m.WORKLOADS, by(gauges.workloads))
        yield numbers(m.WORKLOAD_REASONS, by(gauges.reasons))
        yield numbers(m.WAITING_WORKERS, by(gauges.waiting))
        since = gauges.waiting_since
        yield number(m.OLDEST_WAIT, max(0.0, (now() - since).total_seconds()) if since else 0.0)
        ledgers = {"shareable": gauges.shareable_ledgers, "exclusive": gauges.exclusive_ledgers}
        yield numbers(m.LEDGERS, by(ledgers))
        yield numbers(m.SEATS, by({"shareable": gauges.shareable_seats, "exclusive": gauges.exclusive_seats}))
        yield number(m.LEDGERS_AT_LIMIT, gauges.ledgers_at_limit)
        yield number(m.SEAT_LIMIT, max_seats_per_claim)
        claims = {"allocated": gauges.allocated_claims, "unallocated": gauges.unallocated_claims}
        yield numbers(m.CLAIMS, by(claims))
        yield numbers(m.DEVICES, by({"present": there.devices, "allocated": gauges.allocated_devices}))
        yield number(m.NODES, there.nodes)
        yield number(m.INCOMPLETE_POOLS, there.incomplete_pools)

    return families


def counter_metrics(
    statistics: Callable[[], CountersStatistics], hand_offs: Callable[[], HistogramStatistics]
) -> Families:
    """What this process did with workers."""

    def families() -> Iterator[Metric]:
        counters = statistics()
        yield numbers(m.ASSIGNMENTS, by(counters.assignments_total))
        yield numbers(m.CLEARED, by(counters.cleared_total))
        yield numbers(m.ENDED, by(counters.ended_total))
        yield histogram(m.WAIT, counters.wait_seconds)
        yield histogram(m.HAND_OFF, hand_offs())
        yield numbers(m.REPAIRS, by({mend.value: count for mend, count in counters.repairs_total.items()}))

    return families


def ledger_metrics(statistics: Callable[[], SeatBookStatistics]) -> Families:
    """What this process did with ledgers."""

    def families() -> Iterator[Metric]:
        book = statistics()
        outcomes = {
            "booked": book.booked,
            "adopted": book.adopted,
            "refused": book.refused,
            "contended": book.contended,
        }
        yield numbers(m.BOOKINGS, by(outcomes))
        yield number(m.LEDGER_CONFLICTS, book.conflicts)
        yield number(m.LEDGER_UNANSWERED, book.unanswered)
        yield number(m.SEATS_RELEASED, book.released)
        yield number(m.LEDGERS_RETIRED, book.retired)

    return families


def sweep_metrics(statistics: Callable[[], SweepStatistics]) -> Families:
    """What the sweep found."""

    def families() -> Iterator[Metric]:
        sweep = statistics()
        yield numbers(m.SWEPT, by(sweep.released_total))
        yield number(m.SWEEP_FAILURES, sweep.failures_total)
        yield number(m.SWEEP_SUSPECTS, sweep.suspects)

    return families


def event_metrics(statistics: Callable[[], RecorderStatistics]) -> Families:
    """What became of Events."""

    def families() -> Iterator[Metric]:
        events = statistics()
        yield number(m.EVENTS_RECORDED, events.recorded_total)
        sent = {"created": events.created_total, "refreshed": events.refreshed_total}
        yield numbers(m.EVENTS_SENT, by(sent))
        yield numbers(m.EVENTS_DROPPED, by({drop.value: n for drop, n in events.dropped_total.items()}))
        yield number(m.EVENTS_PENDING, events.pending)

    return families
