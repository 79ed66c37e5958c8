"""What a scrape shows is what the components say of themselves, under the names that dashboards query."""

import gzip
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import ClientSession

from controller.endpoints import serve
from controller.health import LoopStatistics
from controller.metrics import Metrics, election_metrics, loop_metrics, reconcile_metrics, work_queue_metrics
from controller.settings import Settings
from controller.values import BindAddress
from controller.version import BuildInfo
from informers.election import ElectionStatistics
from informers.histogram import Histogram, HistogramStatistics
from informers.runner import Outcome, RunnerStatistics
from informers.workqueue import WorkQueueStatistics

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parent / "golden" / "metrics.txt"
BUILD = BuildInfo(version="1.2.3", commit="abc", date="2026-01-01", python="3.11.7", platform="linux/x86_64")
NONE = Histogram((0.1, 1.0)).statistics()

QUEUE = WorkQueueStatistics(
    depth_by_priority={},
    delayed=0,
    running=0,
    waiting_getters=0,
    failing=0,
    adds_total=0,
    retries_total=0,
    queue_seconds=NONE,
    work_seconds=NONE,
    unfinished_seconds=0.0,
    longest_running_seconds=0.0,
    shut_down=False,
)
RUNNER = RunnerStatistics(
    reconciles_total=dict.fromkeys(Outcome, 0),
    terminal_errors_total=0,
    timeouts_total=0,
    reconcile_seconds=NONE,
    active_workers=0,
    max_concurrent_reconciles=4,
)
ELECTION = ElectionStatistics(
    identity="pod-a_1",
    holder="",
    leading=False,
    terms_total=0,
    slowpath_total=0,
    failed_attempts_total=0,
    seconds_since_renewal=math.inf,
)


class Source:
    """Components whose statistics a test can set."""

    def __init__(self) -> None:
        self.queue = QUEUE
        self.runner = RUNNER
        self.election = ELECTION
        self.loop = LoopStatistics(lag_seconds=NONE, silent_seconds=0.0)
        self.metrics = Metrics(BUILD)
        self.metrics.add(work_queue_metrics("workload", lambda: self.queue))
        self.metrics.add(reconcile_metrics("workload", lambda: self.runner))
        self.metrics.add(election_metrics("placement.openrl.io", lambda: self.election))
        self.metrics.add(loop_metrics(lambda: self.loop))

    async def scrape(self, accept: str = "text/plain;version=0.0.4") -> str:
        settings = Settings(metrics_bind_address=BindAddress("127.0.0.1", 0))
        app = self.metrics.application()
        async with serve(app, settings, "metrics_bind_address") as address, ClientSession() as session:
            response = await session.get(f"http://{address}/metrics", headers={"Accept": accept})
            assert response.status == 200
            return await response.text()


def of_the_project(text: str) -> str:
    """Without the process's own series, whose values vary."""
    kept = [line for line in text.splitlines() if not re.search(r"\b(process_|python_gc_)", line)]
    return "\n".join(kept) + "\n"


async def test_every_series_is_there_from_the_start() -> None:
    """To renew the golden text, write what this test scrapes."""
    assert of_the_project(await Source().scrape()) == GOLDEN.read_text()


async def test_the_process_and_its_garbage_collector_are_there_too() -> None:
    text = await Source().scrape()
    assert "process_cpu_seconds_total" in text
    assert "python_gc_collections_total" in text


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text;version=1.0.0"])
async def test_no_series_tells_when_it_was_created(accept: str) -> None:
    assert "_created" not in await Source().scrape(accept)


async def test_what_components_say_is_what_a_scrape_shows() -> None:
    source = Source()
    await source.scrape()
    observed = HistogramStatistics(bounds=(0.1, 1.0), counts=(1, 2, 3), sum=12.5)
    source.queue = replace(
        QUEUE, depth_by_priority={-100: 7, 0: 2}, adds_total=9, queue_seconds=observed, unfinished_seconds=1.5
    )
    source.runner = replace(
        RUNNER, reconciles_total={outcome: index for index, outcome in enumerate(Outcome)}, active_workers=3
    )
    source.election = replace(ELECTION, leading=True, slowpath_total=2)
    lines = (await source.scrape()).splitlines()
    queue = 'controller="workload",name="workload"'
    for line in (
        f'workqueue_depth{{{queue},priority="-100"}} 7.0',
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


async def test_two_processes_share_nothing() -> None:
    first, second = Source(), Source()
    first.queue = replace(QUEUE, adds_total=9)
    assert "workqueue_adds_total" in await second.scrape()
    assert " 9.0" not in of_the_project(await second.scrape())


async def test_a_scrape_is_compressed_for_those_who_ask() -> None:
    settings = Settings(metrics_bind_address=BindAddress("127.0.0.1", 0))
    app = Source().metrics.application()
    async with (
        serve(app, settings, "metrics_bind_address") as address,
        ClientSession(auto_decompress=False) as session,
    ):
        response = await session.get(f"http://{address}/metrics", headers={"Accept-Encoding": "gzip"})
        assert response.headers["Content-Encoding"] == "gzip"
        assert b"workqueue_depth" in gzip.decompress(await response.read())
