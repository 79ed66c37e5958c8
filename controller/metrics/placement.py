"""Metrics of placement: Workloads, seats, devices, and the activity of this process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from prometheus_client.core import Metric

from controller.metrics import definitions as m
from controller.metrics.exposition import by, histogram, number, numbers
from controller.observe.counters import CountersStatistics
from controller.observe.gauges import GaugesStatistics
from controller.reconcile.sweep import SweepStatistics
from informers.events.recorder import RecorderStatistics
from informers.histogram import HistogramStatistics
from ledger.booking import SeatBookStatistics
from placement.fleet import Capacity


def gauge_metrics(
    gauges: GaugesStatistics, capacity: Capacity, *, max_seats_per_claim: int, now: datetime
) -> Iterator[Metric]:
    """Export the state in the caches of this process."""
    yield numbers(m.WORKLOADS, by(gauges.workloads))
    yield numbers(m.WORKLOAD_REASONS, by(gauges.reasons))
    yield numbers(m.WAITING_WORKERS, by(gauges.waiting))
    since = gauges.waiting_since
    yield number(m.OLDEST_WAIT, max(0.0, (now - since).total_seconds()) if since else 0.0)
    ledgers = {"shareable": gauges.shareable_ledgers, "exclusive": gauges.exclusive_ledgers}
    yield numbers(m.LEDGERS, by(ledgers))
    yield numbers(m.SEATS, by({"shareable": gauges.shareable_seats, "exclusive": gauges.exclusive_seats}))
    yield number(m.LEDGERS_AT_LIMIT, gauges.ledgers_at_limit)
    yield number(m.SEAT_LIMIT, max_seats_per_claim)
    claims = {"allocated": gauges.allocated_claims, "unallocated": gauges.unallocated_claims}
    yield numbers(m.CLAIMS, by(claims))
    yield numbers(m.DEVICES, by({"present": capacity.devices, "allocated": gauges.allocated_devices}))
    yield number(m.NODES, capacity.nodes)
    yield number(m.INCOMPLETE_POOLS, capacity.ignored_pools)


def counter_metrics(counters: CountersStatistics, hand_offs: HistogramStatistics) -> Iterator[Metric]:
    """Export the counters of this process."""
    yield numbers(m.ASSIGNMENTS, by(counters.assignments_total))
    yield numbers(m.CLEARED, by(counters.cleared_total))
    yield numbers(m.ENDED, by(counters.ended_total))
    yield histogram(m.WAIT, counters.wait_seconds)
    yield histogram(m.HAND_OFF, hand_offs)
    yield numbers(m.REPAIRS, by({kind.value: count for kind, count in counters.repairs_total.items()}))


def ledger_metrics(book: SeatBookStatistics) -> Iterator[Metric]:
    """Export the ledger writes of this process."""
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


def sweep_metrics(sweep: SweepStatistics) -> Iterator[Metric]:
    """Export the results of the sweep."""
    yield numbers(m.SWEPT, by(sweep.released_total))
    yield number(m.SWEEP_FAILURES, sweep.failures_total)
    yield number(m.SWEEP_SUSPECTS, sweep.suspects)


def event_metrics(events: RecorderStatistics) -> Iterator[Metric]:
    """Export the numbers of recorded, sent, dropped and pending Events."""
    yield number(m.EVENTS_RECORDED, events.recorded_total)
    yield numbers(m.EVENTS_SENT, by({"created": events.created_total, "refreshed": events.refreshed_total}))
    yield numbers(m.EVENTS_DROPPED, by({reason.value: n for reason, n in events.dropped_total.items()}))
    yield number(m.EVENTS_PENDING, events.pending)
