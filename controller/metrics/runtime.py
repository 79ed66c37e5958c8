"""Metrics of the machinery: queue, reconciles, leading, event loop, build."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from controller.metrics import definitions as m
from controller.metrics.exposition import Families, LabelValues, histogram, number, numbers
from controller.runtime.build_info import BuildInfo
from controller.runtime.health import LoopStatistics
from informers.leader.election import ElectionStatistics
from informers.queue.runner import RunnerStatistics
from informers.queue.workqueue import WorkQueueStatistics


def work_queue_metrics(controller: str, statistics: Callable[[], WorkQueueStatistics]) -> Families:
    """What client-go reports of a work queue. It is named like its controller."""
    labels = (controller, controller)

    def families() -> Iterator[Metric]:
        now = statistics()
        yield number(m.QUEUE_DEPTH, now.depth, *labels, "0")
        yield number(m.QUEUE_ADDS, now.adds_total, *labels)
        yield number(m.QUEUE_RETRIES, now.retries_total, *labels)
        yield histogram(m.QUEUE_SECONDS, now.queue_seconds, *labels)
        yield histogram(m.WORK_SECONDS, now.work_seconds, *labels)
        yield number(m.UNFINISHED_SECONDS, now.unfinished_seconds, *labels)
        yield number(m.LONGEST_RUNNING_SECONDS, now.longest_running_seconds, *labels)

    return families


def reconcile_metrics(controller: str, statistics: Callable[[], RunnerStatistics]) -> Families:
    """What controller-runtime reports of a controller's reconciles."""

    def families() -> Iterator[Metric]:
        now = statistics()
        results: dict[LabelValues, float] = {
            (controller, outcome.value): count for outcome, count in now.reconciles_total.items()
        }
        yield numbers(m.RECONCILES, results)
        yield number(m.RECONCILE_ERRORS, now.errors_total, controller)
        yield number(m.TERMINAL_ERRORS, now.terminal_errors_total, controller)
        yield number(m.PANICS, 0, controller)
        yield number(m.TIMEOUTS, now.timeouts_total, controller)
        yield histogram(m.RECONCILE_SECONDS, now.reconcile_seconds, controller)
        yield number(m.MAX_RECONCILES, now.max_concurrent_reconciles, controller)
        yield number(m.ACTIVE_WORKERS, now.active_workers, controller)

    return families


def leadership_metrics(lease: str, statistics: Callable[[], ElectionStatistics]) -> Families:
    """What client-go reports of leader election, on leaders and on those that stand by."""

    def families() -> Iterator[Metric]:
        now = statistics()
        yield number(m.LEADING, int(now.leading), lease)
        yield number(m.SLOWPATH, now.slowpath_total, lease)
        yield number(m.TERMS, now.terms_total)
        yield number(m.LEASE_FAILURES, now.failed_attempts_total)

    return families


def withheld_metrics(statistics: Callable[[], int]) -> Families:
    """Writes that were kept back because the lease was not renewed in time."""
    return lambda: [number(m.WRITES_WITHHELD, statistics())]


def loop_metrics(statistics: Callable[[], LoopStatistics]) -> Families:
    """How late the event loop is."""
    return lambda: [histogram(m.LOOP_LAG, statistics().lag_seconds)]


def build_metrics(build: BuildInfo) -> Families:
    """Which build this is."""
    labels = (build.version, build.commit, build.date, build.python, build.platform)
    return lambda: [number(m.BUILD_INFO, 1, *labels)]
