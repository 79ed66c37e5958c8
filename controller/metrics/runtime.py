"""Metrics of the runtime: work queue, reconciles, leader election, event loop, build."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from controller.metrics import definitions as m
from controller.metrics.exposition import LabelValues, histogram, number, numbers
from controller.runtime.build_info import BuildInfo
from informers.histogram import HistogramStatistics
from informers.leader.election import ElectionStatistics
from informers.queue.runner import RunnerStatistics
from informers.queue.workqueue import WorkQueueStatistics


def work_queue_metrics(controller: str, queue: WorkQueueStatistics) -> Iterator[Metric]:
    """Export client-go's work queue metrics. The queue has the name of its controller."""
    labels = (controller, controller)
    yield number(m.QUEUE_DEPTH, queue.depth, *labels, "0")
    yield number(m.QUEUE_ADDS, queue.adds_total, *labels)
    yield number(m.QUEUE_RETRIES, queue.retries_total, *labels)
    yield histogram(m.QUEUE_SECONDS, queue.queue_seconds, *labels)
    yield histogram(m.WORK_SECONDS, queue.work_seconds, *labels)
    yield number(m.UNFINISHED_SECONDS, queue.unfinished_seconds, *labels)
    yield number(m.LONGEST_RUNNING_SECONDS, queue.longest_running_seconds, *labels)


def reconcile_metrics(controller: str, runner: RunnerStatistics) -> Iterator[Metric]:
    """Export controller-runtime's metrics of reconciles."""
    results: dict[LabelValues, float] = {
        (controller, result.value): count for result, count in runner.reconciles_total.items()
    }
    yield numbers(m.RECONCILES, results)
    yield number(m.RECONCILE_ERRORS, runner.errors_total, controller)
    yield number(m.TERMINAL_ERRORS, runner.terminal_errors_total, controller)
    yield number(m.PANICS, 0, controller)
    yield number(m.TIMEOUTS, runner.timeouts_total, controller)
    yield histogram(m.RECONCILE_SECONDS, runner.reconcile_seconds, controller)
    yield number(m.MAX_RECONCILES, runner.max_concurrent_reconciles, controller)
    yield number(m.ACTIVE_WORKERS, runner.active_workers, controller)


def leadership_metrics(lease: str, election: ElectionStatistics) -> Iterator[Metric]:
    """Export client-go's leader election metrics, on leader and standby."""
    yield number(m.LEADING, int(election.leading), lease)
    yield number(m.SLOWPATH, election.slowpath_total, lease)
    yield number(m.TERMS, election.terms_total)
    yield number(m.LEASE_FAILURES, election.failed_attempts_total)


def withheld_metrics(writes: int) -> Iterator[Metric]:
    """Export the writes that were not sent because the lease was not renewed in time."""
    yield number(m.WRITES_WITHHELD, writes)


def loop_metrics(lag_seconds: HistogramStatistics) -> Iterator[Metric]:
    """Export the lag of the event loop."""
    yield histogram(m.LOOP_LAG, lag_seconds)


def build_metrics(build: BuildInfo) -> Iterator[Metric]:
    """Export the version and platform of the build."""
    labels = (build.version, build.commit, build.date, build.python, build.platform)
    yield number(m.BUILD_INFO, 1, *labels)
