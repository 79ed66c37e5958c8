"""The metrics endpoint: names, types, labels, and values from the first scrape on."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import ClientSession

from controller.config.flags import Settings
from controller.config.values import BindAddress
from controller.main import controller_metrics
from controller.metrics.api_server import request_metrics
from controller.metrics.definitions import DEFINITIONS, PREFIX
from controller.metrics.exposition import FOREIGN_PREFIXES, Metrics
from controller.metrics.runtime import (
    build_metrics,
    leadership_metrics,
    loop_metrics,
    reconcile_metrics,
    withheld_metrics,
    work_queue_metrics,
)
from controller.runtime.build_info import BuildInfo
from controller.runtime.http_server import serve
from informers.client.connection import SessionStatistics
from informers.client.request_counts import RequestCounts
from informers.client.transport import TransportStatistics
from informers.client.watch_stream import WatchCounts
from informers.histogram import Histogram, HistogramStatistics
from informers.leader.election import ElectionStatistics
from informers.queue.runner import ResultLabel, RunnerStatistics
from informers.queue.workqueue import WorkQueueStatistics
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.controller.metrics.scraping import Scrape, family_name, scrape
from tests.virtualtime import run_virtual

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics.txt"
BUILD = BuildInfo(version="1.2.3", commit="abc", date="2026-01-01", python="3.11.7", platform="linux/x86_64")
NONE = Histogram((0.1, 1.0)).statistics()

QUEUE = WorkQueueStatistics(
    depth=0,
    delayed=0,
    adds_total=0,
    retries_total=0,
    queue_seconds=NONE,
    work_seconds=NONE,
    unfinished_seconds=0.0,
    longest_running_seconds=0.0,
)
RUNNER = RunnerStatistics(
    reconciles_total=dict.fromkeys(ResultLabel, 0),
    terminal_errors_total=0,
    timeouts_total=0,
    reconcile_seconds=NONE,
    active_workers=0,
    max_concurrent_reconciles=4,
)


ELECTION = ElectionStatistics(
    leading=False,
    terms_total=0,
    slowpath_total=0,
    failed_attempts_total=0,
)


def client_after(*requests: tuple[str, str, float]) -> TransportStatistics:
    """Return the statistics of an API client after these requests."""
    counts = RequestCounts()
    for request in requests:
        counts.observe(*request)
    access = SessionStatistics(renewals=0, failed_renewals=0, requests=0, pools=1)
    return TransportStatistics(WatchCounts(), access, counts.statistics())


GET = ("GET", "200", 0.01)
CREATE = ("POST", "201", 0.02)


def add_process_metrics(metrics: Metrics, *clients: TransportStatistics) -> None:
    """Add the sources that a process has beyond its controller."""
    metrics.add(lambda: request_metrics("api.example:6443", *clients))
    metrics.add(lambda: withheld_metrics(0))
    metrics.add(lambda: loop_metrics(NONE))
    metrics.add(lambda: build_metrics(BUILD))


async def scrape_idle_process() -> Scrape:
    """Scrape a controller that has synced with an empty cluster and done nothing."""
    async with SimulatedCluster() as cluster, simulated_controller(cluster) as process:
        metrics = controller_metrics(process.controller, process.leadership)
        add_process_metrics(metrics, client_after(GET), client_after(CREATE))
        return scrape(metrics)


def normalized(text: str) -> str:
    """Drop the series of the process itself, whose values vary, and the versions of the simulated server."""
    kept = [line for line in text.splitlines() if not re.search(r"\b(process_|python_gc_)", line)]
    versions = re.compile(r"^(reflector_last_resource_version{.*}) .*$")
    return "\n".join(versions.sub(r"\1 VERSION", line) for line in kept) + "\n"


def test_every_series_exists_from_the_start() -> None:
    """To update the golden file, write the scraped text to it."""
    assert normalized(run_virtual(scrape_idle_process).text) == GOLDEN.read_text()


def test_the_served_metrics_equal_their_definitions() -> None:
    families = {family_name(family): family for family in run_virtual(scrape_idle_process).families}
    ours = {name for name in families if not name.startswith(FOREIGN_PREFIXES)}

    assert ours == {definition.name for definition in DEFINITIONS}
    for definition in DEFINITIONS:
        family = families[definition.name]
        labels = {label for sample in family.samples for label in sample.labels if label != "le"}
        assert (family.type, family.documentation) == (definition.type.value, definition.help)
        assert labels <= set(definition.labels), definition.name


def test_names_follow_the_conventions() -> None:
    assert [name for name, n in Counter(d.name for d in DEFINITIONS).items() if n > 1] == []
    for definition in DEFINITIONS:
        assert definition.name.endswith("_total") == (definition.type.value == "counter"), definition.name
        assert definition.help[0].isupper() or definition.help[0].isdigit(), definition.name
        assert not definition.help.endswith("."), definition.name
        if not definition.name.startswith(PREFIX):
            known = ("controller_runtime_", "workqueue_", "leader_election_", "reflector_", "rest_client_")
            assert definition.name.startswith(known), definition.name


# Over HTTP.

pytestmark = pytest.mark.anyio


class Source:
    """A metrics endpoint over statistics that a test can set."""

    def __init__(self) -> None:
        self.queue = QUEUE
        self.runner = RUNNER
        self.leadership = ELECTION
        self.metrics = Metrics()
        self.metrics.add(lambda: work_queue_metrics("workload", self.queue))
        self.metrics.add(lambda: reconcile_metrics("workload", self.runner))
        self.metrics.add(lambda: leadership_metrics("placement.openrl.io", self.leadership))

    async def scrape(self, accept: str = "text/plain;version=0.0.4") -> str:
        settings = Settings(metrics_bind_address=BindAddress("127.0.0.1", 0))
        app = self.metrics.application()
        async with serve(app, settings, "metrics_bind_address") as address, ClientSession() as session:
            response = await session.get(f"http://{address}/metrics", headers={"Accept": accept})
            assert response.status == 200
            return await response.text()


async def test_the_process_and_its_garbage_collector_are_exported() -> None:
    text = await Source().scrape()
    assert "process_cpu_seconds_total" in text
    assert "python_gc_collections_total" in text


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text;version=1.0.0"])
async def test_no_series_has_a_creation_time(accept: str) -> None:
    assert "_created" not in await Source().scrape(accept)


async def test_a_scrape_shows_the_statistics_of_the_components() -> None:
    source = Source()
    await source.scrape()
    observed = HistogramStatistics(bounds=(0.1, 1.0), counts=(1, 2, 3), sum=12.5)
    source.queue = replace(QUEUE, depth=2, adds_total=9, queue_seconds=observed, unfinished_seconds=1.5)
    source.runner = replace(
        RUNNER,
        reconciles_total={outcome: index for index, outcome in enumerate(ResultLabel)},
        active_workers=3,
    )
    source.leadership = replace(ELECTION, leading=True, slowpath_total=2)
    lines = (await source.scrape()).splitlines()
    queue = 'controller="workload",name="workload"'
    for line in (
        f'workqueue_depth{{{queue},priority="0"}} 2.0',
        f"workqueue_adds_total{{{queue}}} 9.0",
        f"workqueue_queue_duration_seconds_bucket{{{queue.replace(',', ',le=LE,')}}} 1.0",
        f"workqueue_queue_duration_seconds_count{{{queue}}} 6.0",
        f"workqueue_queue_duration_seconds_sum{{{queue}}} 12.5",
        f"workqueue_unfinished_work_seconds{{{queue}}} 1.5",
        'controller_runtime_reconcile_total{controller="workload",result="requeue_after"} 3.0',
        'controller_runtime_reconcile_errors_total{controller="workload"} 1.0',
        'leader_election_master_status{name="placement.openrl.io"} 1.0',
        'leader_election_slowpath_total{name="placement.openrl.io"} 2.0',
        'controller_runtime_active_workers{controller="workload"} 3.0',
    ):
        assert line.replace("le=LE", 'le="0.1"') in lines


async def test_processes_share_no_metrics() -> None:
    first, second = Source(), Source()
    first.queue = replace(QUEUE, adds_total=9)
    assert "workqueue_adds_total" in await second.scrape()
    assert " 9.0" not in normalized(await second.scrape())


async def test_the_requests_of_all_clients_are_summed() -> None:
    metrics = Metrics()
    add_process_metrics(metrics, client_after(GET, GET, CREATE), client_after(GET))
    text = scrape(metrics).text

    assert 'rest_client_requests_total{code="200",host="api.example:6443",method="GET"} 3.0' in text
    assert 'rest_client_request_duration_seconds_count{host="api.example:6443",verb="GET"} 3.0' in text
    assert 'rest_client_requests_total{code="201",host="api.example:6443",method="POST"} 1.0' in text


async def test_a_scrape_is_compressed_on_request() -> None:
    settings = Settings(metrics_bind_address=BindAddress("127.0.0.1", 0))
    app = Source().metrics.application()
    async with (
        serve(app, settings, "metrics_bind_address") as address,
        ClientSession(auto_decompress=False) as session,
    ):
        response = await session.get(f"http://{address}/metrics", headers={"Accept-Encoding": "gzip"})
        assert response.headers["Content-Encoding"] == "gzip"
        assert b"workqueue_depth" in gzip.decompress(await response.read())
