"""The numbers that dashboards query, under the names that client-go and controller-runtime gave them.

Nothing is counted here: what owns a state keeps its `statistics()`, and a scrape turns the snapshots into
metrics. So every series exists from the start, at zero, none has a `_created` twin, and each process of a
simulation has its own registry. Labels are few and bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import prometheus_client
from aiohttp import web
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from controller.health import LoopStatistics
from controller.version import BuildInfo
from informers.election import ElectionStatistics
from informers.histogram import HistogramStatistics
from informers.runner import RunnerStatistics
from informers.workqueue import WorkQueueStatistics

METRICS_PATH = "/metrics"

Families = Callable[[], Iterable[Metric]]
"""Gives the current metrics of one source."""


class Metrics:
    """The registry of one process: about the process and its build from the start, sources are added."""

    def __init__(self, build: BuildInfo) -> None:
        self.registry = CollectorRegistry()
        self._sources = 0
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)
        self.add(lambda: [_build_info(build)])

    def __repr__(self) -> str:
        return f"<Metrics sources={self._sources}>"

    def add(self, families: Families) -> None:
        """Add a source. `families` is called on every scrape, on the event loop."""
        self.registry.register(_Source(families))
        self._sources += 1

    def application(self) -> web.Application:
        """The application to serve on the metrics address."""
        app = web.Application()
        app.add_routes([web.get(METRICS_PATH, self._scrape)])
        return app

    async def _scrape(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        response = web.Response(body=encode(self.registry), headers={"Content-Type": content_type})
        response.enable_compression()
        return response


class _Source(Collector):
    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


def work_queue_metrics(controller: str, statistics: Callable[[], WorkQueueStatistics]) -> Families:
    """What client-go reports of a work queue. It is named like its controller."""
    labels = {"name": controller, "controller": controller}

    def families() -> Iterator[Metric]:
        now = statistics()
        depth = GaugeMetricFamily(
            "workqueue_depth", "Keys ready to be taken, by priority", labels=[*labels, "priority"]
        )
        for priority, count in sorted(({0: 0} | dict(now.depth_by_priority)).items()):
            depth.add_metric([*labels.values(), str(priority)], count)
        yield depth
        yield _counter("workqueue_adds", "Keys that became due for a run", labels, now.adds_total)
        yield _counter("workqueue_retries", "Keys added with a delay or back-off", labels, now.retries_total)
        yield _histogram(
            "workqueue_queue_duration_seconds", "Time from ready to taken", labels, now.queue_seconds
        )
        yield _histogram(
            "workqueue_work_duration_seconds", "Time from taken to done", labels, now.work_seconds
        )
        yield _gauge(
            "workqueue_unfinished_work_seconds",
            "Sum over the keys in work of the time since they were taken",
            labels,
            now.unfinished_seconds,
        )
        yield _gauge(
            "workqueue_longest_running_processor_seconds",
            "Time since the key that is longest in work was taken",
            labels,
            now.longest_running_seconds,
        )

    return families


def reconcile_metrics(controller: str, statistics: Callable[[], RunnerStatistics]) -> Families:
    """What controller-runtime reports of a controller's reconciles."""
    labels = {"controller": controller}
    prefix = "controller_runtime"

    def families() -> Iterator[Metric]:
        now = statistics()
        total = CounterMetricFamily(
            f"{prefix}_reconcile",
            "Reconciles by result: success, error, requeue (a conflict), requeue_after (asked for more)",
            labels=[*labels, "result"],
        )
        for outcome, count in now.reconciles_total.items():
            total.add_metric([controller, outcome.value], count)
        yield total
        yield _counter(f"{prefix}_reconcile_errors", "Reconciles that failed", labels, now.errors_total)
        yield _counter(
            f"{prefix}_terminal_reconcile_errors",
            "Reconciles that failed in a way that no retry can mend",
            labels,
            now.terminal_errors_total,
        )
        yield _counter(
            f"{prefix}_reconcile_panics",
            "Always 0: whatever a reconcile raises counts as an error",
            labels,
            0,
        )
        yield _counter(
            f"{prefix}_reconcile_timeouts",
            "Reconciles that were cut off at their time limit",
            labels,
            now.timeouts_total,
        )
        yield _histogram(
            f"{prefix}_reconcile_time_seconds", "Time per reconcile", labels, now.reconcile_seconds
        )
        yield _gauge(
            f"{prefix}_max_concurrent_reconciles",
            "Most reconciles at once",
            labels,
            now.max_concurrent_reconciles,
        )
        yield _gauge(f"{prefix}_active_workers", "Reconciles at this moment", labels, now.active_workers)

    return families


def election_metrics(lease: str, statistics: Callable[[], ElectionStatistics]) -> Families:
    """What client-go reports of leader election, on leaders and on those that stand by."""
    labels = {"name": lease}

    def families() -> Iterator[Metric]:
        now = statistics()
        yield _gauge(
            "leader_election_master_status",
            "1 while this process leads, 0 while it stands by",
            labels,
            int(now.leading),
        )
        yield _counter(
            "leader_election_slowpath",
            "Renewals that had to read the lease again",
            labels,
            now.slowpath_total,
        )

    return families


def loop_metrics(statistics: Callable[[], LoopStatistics]) -> Families:
    """How late the event loop is."""

    def families() -> Iterator[Metric]:
        yield _histogram(
            "open_rl_scheduler_loop_lag_seconds",
            "How late the event loop came to a timer",
            {},
            statistics().lag_seconds,
        )

    return families


def _build_info(build: BuildInfo) -> Metric:
    labels = {
        "version": build.version,
        "commit": build.commit,
        "date": build.date,
        "python": build.python,
        "platform": build.platform,
    }
    return _gauge("open_rl_scheduler_build_info", "Which build this is; the value is always 1", labels, 1)


def _gauge(name: str, text: str, labels: Mapping[str, str], value: float) -> Metric:
    family = GaugeMetricFamily(name, text, labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def _counter(name: str, text: str, labels: Mapping[str, str], value: float) -> Metric:
    """`_total` is added to the name on the way out."""
    family = CounterMetricFamily(name, text, labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def _histogram(name: str, text: str, labels: Mapping[str, str], value: HistogramStatistics) -> Metric:
    family = HistogramMetricFamily(name, text, labels=list(labels))
    bounds = [*(repr(float(bound)) for bound in value.bounds), "+Inf"]
    buckets = list(zip(bounds, value.cumulative, strict=True))
    family.add_metric(list(labels.values()), buckets, value.sum)
    return family
