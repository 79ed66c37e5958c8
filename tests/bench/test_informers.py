"""The informer benchmarks: their targets, their figures and their Pod server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from bench.informers.pods import POD_BYTES, TEMPLATES, pod
from bench.informers.queueing import cycles
from bench.informers.server import PodServer
from bench.report.document import BEGIN, END, INFORMERS_BEGIN, INFORMERS_END, with_results
from bench.report.informers import figures, targets
from bench.samples import Results, Sample
from controller.api.pods import PODS, ForeignPod
from tests.bench.builders import environment, sample


def measured(scenario: str, contender: str = "informer", **changes: Any) -> Sample:
    """Return a sample, by default of 20,000 operations in one second."""
    fields: dict[str, Any] = {
        "scenario": scenario,
        "contender": contender,
        "workers": 20_000,
        "round": 1,
        "operations": 20_000,
        "seconds": 1.0,
        "cpu_seconds": 1.0,
    }
    return Sample(**(fields | changes))


def targets_met(*samples: Sample) -> list[str]:
    return [row[-1] for row in targets(samples).rows]


@pytest.mark.parametrize(("seconds", "cpu", "expected"), [(20, 20, "yes"), (19, 21, "no"), (21, 19, "no")])
def test_a_list_is_compared_in_wall_time_and_cpu_time(seconds: float, cpu: float, expected: str) -> None:
    typed = measured("informers-sync", "typed", seconds=seconds, cpu_seconds=cpu)
    assert targets_met(measured("informers-sync"), typed) == [expected]


def test_a_list_may_take_1_5_times_as_long_as_plain_decoding() -> None:
    ours = measured("informers-sync", seconds=1.5, cpu_seconds=1.4)
    assert targets_met(ours, measured("informers-sync", "plain")) == ["yes"]
    assert targets_met(ours, measured("informers-sync", "plain", cpu_seconds=0.9)) == ["no"]


@pytest.mark.parametrize(("cpu_ms", "expected"), [(49.9, "yes"), (50.0, "no")])
def test_the_target_of_a_stall_is_cpu_time_and_its_wall_time_is_shown(cpu_ms: float, expected: str) -> None:
    notes = {"stall_cpu_seconds": cpu_ms / 1000, "stall_wall_seconds": 0.3, "stall_collection_seconds": 0.0}
    relist = measured("informers-relist/1% changed", notes=notes)
    (row,) = targets([relist, measured("informers-relist/first list", notes=notes)]).rows
    assert row[-1] == expected
    assert "300 to 300 ms of wall time" in row


def test_a_rate_excludes_cpu_waits() -> None:
    events = measured("informers-events", operations=100_000, seconds=15.0, cpu_wait_seconds=6.0)
    (row,) = targets([events]).rows
    assert row[2] == "11,111/s"
    assert row[3].startswith("6,667/s")
    assert row[-1] == "yes"


def test_delayed_keys_must_not_slow_the_queue_down() -> None:
    few = measured("informers-queue", "queue", workers=0, operations=200_000)
    many = measured("informers-queue", "queue", workers=10_000, operations=200_000, cpu_seconds=1.2)
    assert targets_met(few, many) == ["yes", "yes", "no"]


def test_memory_has_targets() -> None:
    held = measured("informers-held", notes={"held_bytes_each": 513.0})
    program = measured(
        "informers-memory", "program", rss_peak_bytes=256 << 20, notes={"synced_rss_peak_bytes": 1.0}
    )
    assert targets_met(held, program) == ["no", "yes"]


def test_every_sample_has_a_row_of_figures() -> None:
    samples = [measured("informers-sync"), sample("dedicated-100")]
    assert len(figures(samples).rows) == 1


def test_measuring_the_informers_again_keeps_the_other_results() -> None:
    document = f"{BEGIN}\nplaced\n{END}\n{INFORMERS_BEGIN}\nold\n{INFORMERS_END}\n"
    text = with_results(
        document,
        Results(facts=environment(), samples=[measured("informers-held", notes={"held_bytes_each": 1.0})]),
    )
    assert f"{BEGIN}\nplaced\n{END}" in text
    assert "old" not in text
    assert "memory per foreign Pod" in text
    again = with_results(text, Results(facts=environment(), samples=[sample("dedicated-100")]))
    assert "memory per foreign Pod" in again
    assert "placed" not in again


def test_generated_pods_have_their_size_and_repeat_values() -> None:
    one, other = PODS.decode(pod(1, 5)), PODS.decode(pod(1 + TEMPLATES, 6))
    assert isinstance(one, ForeignPod)
    assert isinstance(other, ForeignPod)
    assert abs(len(pod(1, 5)) - POD_BYTES) < 50
    assert (one.name, one.uid) != (other.name, other.uid)
    assert one.requests is other.requests


async def _responses(server: PodServer, *paths: str) -> list[bytes]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        return [await (await session.get(path)).read() for path in paths]


def test_the_server_lists_in_pages_and_whole() -> None:
    first, last, whole, none = asyncio.run(
        _responses(
            PodServer(5),
            "/api/v1/pods?limit=3",
            "/api/v1/pods?limit=3&continue=3",
            "/api/v1/pods",
            "/apis/openrl.io/v1alpha1/workloads",
        )
    )
    pages = json.loads(first)["items"] + json.loads(last)["items"]
    assert json.loads(first)["metadata"]["continue"] == "3"
    assert "continue" not in json.loads(last)["metadata"]
    assert json.loads(whole)["items"] == pages
    assert len(pages) == 5
    assert json.loads(none)["items"] == []


def test_the_server_changes_the_requested_share_of_pods() -> None:
    server = PodServer(100)
    before, version = set(server.pods), server.version
    asyncio.run(_responses(server, "/control/change?share=0.1"))
    assert len(server.pods) == 100
    assert server.version > version
    assert len(before - set(server.pods)) == 10 + 5


def test_the_queue_measurement_covers_every_key() -> None:
    report = cycles(delayed=10, count=300)
    assert report["objects"] == 300
    assert report["seconds"] > 0
