"""Sending of events, series, rate limits and closing."""

from __future__ import annotations

import random
from typing import Any

import anyio
import pytest

from informers.events.object import EventType, Reference
from informers.events.recorder import DropReason, EventRecorder, RecorderLimits
from informers.events.series import ObjectRateLimits
from tests.informers.events.event_server import (
    ENDLESS,
    EventServer,
    Slow,
    at,
    clock,
    make_recorder,
    record,
    running,
    thing,
)
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


async def test_an_event_has_all_fields() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        await anyio.sleep(1.5)
        record(recorder, type_=EventType.WARNING, related=Reference("v1", "Pod", "brush", "space"))
        await anyio.sleep(1)
    name = server.only["metadata"]["name"]
    assert name.startswith("thing.")
    assert server.only == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "space"},
        "eventTime": at(1.5),
        "reportingController": "example.com/controller",
        "reportingInstance": "controller-0",
        "regarding": {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "namespace": "space",
            "name": "thing",
            "uid": "uid-thing",
        },
        "related": {"apiVersion": "v1", "kind": "Pod", "namespace": "space", "name": "brush"},
        "type": "Warning",
        "reason": "Painted",
        "action": "Painting",
        "note": "It is blue",
    }


async def test_events_about_cluster_scoped_objects_go_to_the_default_namespace() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder, Reference("v1", "Node", "node-1", uid="u"))
        await anyio.sleep(1)
    assert server.only["metadata"]["namespace"] == "default"
    assert "namespace" not in server.only["regarding"]


async def test_events_recorded_before_run_are_sent_with_their_own_time() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    record(recorder)
    await anyio.sleep(40)
    async with running(recorder):
        await anyio.sleep(1)
    assert server.only["eventTime"] == at(0)


# Series --------------------------------------------------------------------------------------------


async def test_repeats_update_the_count_of_one_event_once_per_refresh_period() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        for _ in range(20):
            record(recorder)
            await anyio.sleep(7)
        await anyio.sleep(100)
    assert [(r.verb, r.at_seconds, r.count) for r in server.requests] == [
        ("create", 0, 1),
        ("patch", 60, 9),
        ("patch", 120, 18),
        ("patch", 180, 20),
    ]
    assert server.only["series"] == {"count": 20, "lastObservedTime": at(133)}


async def test_a_repeat_after_the_refresh_period_is_sent_at_once() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        await anyio.sleep(200)
        record(recorder)
        await anyio.sleep(1)
    assert [(r.verb, r.at_seconds, r.count) for r in server.requests] == [("create", 0, 1), ("patch", 200, 2)]


async def test_repeats_are_included_in_an_event_that_is_not_sent_yet() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    for _ in range(3):
        record(recorder)
    async with running(recorder):
        await anyio.sleep(1)
    assert [(r.verb, r.count) for r in server.requests] == [("create", 3)]


async def test_repeats_during_a_write_are_sent_later() -> None:
    server = EventServer([Slow(5)])
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        await anyio.sleep(2)
        record(recorder)
        await anyio.sleep(100)
    assert [(r.verb, r.at_seconds, r.count) for r in server.requests] == [("create", 0, 1), ("patch", 65, 2)]


@pytest.mark.parametrize(("quiet_seconds", "events"), [(359.9, 1), (360, 2)])
async def test_a_series_is_finished_after_six_minutes_without_repeats(
    quiet_seconds: float, events: int
) -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        for _ in range(2):
            record(recorder)
            await anyio.sleep(quiet_seconds)
    assert len(server.objects) == events


async def test_another_note_is_a_repeat_and_the_first_note_stays() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder, note="3 brushes left")
        record(recorder, note="2 brushes left")
        await anyio.sleep(100)
    assert server.only["note"] == "3 brushes left"
    assert server.counts() == [2]


@pytest.mark.parametrize(
    "other",
    [
        {"regarding": thing("thing", uid="uid-of-its-successor")},
        {"type_": EventType.WARNING},
        {"reason": "Repainted"},
        {"action": "Repainting"},
        {"related": thing("brush")},
        {"distinct": "green"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_another_object_type_reason_action_related_or_distinct_is_another_event(
    other: dict[str, Any],
) -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        record(recorder, **other)
        await anyio.sleep(100)
    assert server.counts() == [1, 1]


async def test_another_version_of_the_same_object_is_the_same_event() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        for version in ("1", "2"):
            subject = Reference("example.com/v1", "Thing", "thing", "space", "uid", version)
            brush = Reference("v1", "Pod", "brush", "space", "uid-2", version)
            record(recorder, subject, related=brush)
        await anyio.sleep(100)
    assert server.counts() == [2]
    assert server.only["regarding"]["resourceVersion"] == "1"


async def test_an_event_that_expired_on_the_server_continues_in_a_new_one() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        await anyio.sleep(100)
        (first,) = server.objects
        server.objects.clear()
        record(recorder)
        await anyio.sleep(100)
    assert first not in server.objects
    assert server.counts() == [2]
    assert server.only["eventTime"] == at(0)


# Limits --------------------------------------------------------------------------------------------


async def test_one_object_may_have_25_events_at_once_and_one_more_every_five_minutes() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        for n in range(30):
            record(recorder, reason=f"Reason{n}")
        record(recorder, thing("other"))
        await anyio.sleep(10)
        assert len(server.objects) == 26
        assert recorder.statistics().dropped_total[DropReason.OBJECT_LIMIT] == 5
        await anyio.sleep(289)
        record(recorder, reason="TooEarly")
        await anyio.sleep(2)
        record(recorder, reason="InTime")
        record(recorder, reason="TooMany")
        await anyio.sleep(10)
    reasons = [event["reason"] for event in server.objects.values()]
    assert reasons[26:] == ["InTime"]


async def test_repeats_do_not_count_against_the_rate_limit_of_an_object() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        for _ in range(1000):
            record(recorder)
        record(recorder, reason="Sold")
        await anyio.sleep(100)
    assert server.counts() == [1000, 1]


async def test_all_writes_together_keep_to_one_rate() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        for n in range(210):
            record(recorder, thing(f"thing-{n}"))
        await anyio.sleep(100)
    times = [r.at_seconds for r in server.requests]
    assert times[:10] == [0] * 10
    assert times[10:] == pytest.approx([0.1 * n for n in range(1, 201)])


async def test_no_more_than_the_bound_wait_while_the_server_hangs() -> None:
    server = EventServer([Slow(ENDLESS)])
    recorder = make_recorder(server, RecorderLimits(pending_max=10))
    async with running(recorder):
        for n in range(15):
            record(recorder, thing(f"thing-{n}"))
            await anyio.sleep(1)
        statistics = recorder.statistics()
    assert statistics.pending == 10
    assert statistics.dropped_total[DropReason.OVERFLOW] == 5
    assert len(recorder._series) == 10


async def test_memory_is_bounded_and_drops_the_least_recent_series_first() -> None:
    server = EventServer()
    recorder = make_recorder(server, RecorderLimits(memory_max=2))
    async with running(recorder):
        for name in ("a", "b", "a", "c", "a", "b"):
            record(recorder, thing(name))
            await anyio.sleep(61)
    counts = sorted(
        (e["regarding"]["name"], e.get("series", {}).get("count", 1)) for e in server.objects.values()
    )
    assert counts == [("a", 3), ("b", 1), ("b", 1), ("c", 1)]
    assert len(recorder._series) == len(recorder._rate_limits._full_at) == 2


def test_the_rate_limit_of_an_active_object_is_not_dropped_for_idle_ones() -> None:
    rate_limits = ObjectRateLimits(burst=3, refill_seconds=300, objects_max=2)
    taken = [rate_limits.take(subject, now=0) for subject in ("a", "b", "a", "c", "a", "d", "a")]
    assert taken == [True] * 6 + [False]


async def test_finished_series_are_freed() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with running(recorder):
        for n in range(50):
            record(recorder, thing(f"thing-{n}"))
        await anyio.sleep(360)
        record(recorder)
    assert len(recorder._series) == 1


# The caller ----------------------------------------------------------------------------------------


async def test_recording_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Any:
        raise OSError("no clock")

    recorder = EventRecorder(
        EventServer().api,
        reporting_controller="example.com/controller",
        reporting_instance="controller-0",
        now=broken,
        rng=random.Random(0),
    )
    record(recorder)
    assert recorder.statistics().dropped_total[DropReason.UNFORESEEN] == 1
    assert "no clock" in caplog.text


@pytest.mark.parametrize(("controller", "instance"), [("", "a"), ("a", ""), ("a", "b" * 129)])
async def test_a_recorder_with_invalid_names_is_rejected(controller: str, instance: str) -> None:
    with pytest.raises(ValueError, match="events need a reporting controller"):
        EventRecorder(
            EventServer().api,
            reporting_controller=controller,
            reporting_instance=instance,
            now=clock,
            rng=random.Random(0),
        )


# The end -------------------------------------------------------------------------------------------


async def test_closing_sends_all_pending_series_at_once() -> None:
    server = EventServer()
    recorder = make_recorder(server)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.run)
        record(recorder)
        await anyio.sleep(10)
        record(recorder)
        record(recorder, thing("other"))
        assert await recorder.aclose(5)
    assert anyio.current_time() == 10
    assert server.counts() == [2, 1]
    record(recorder, thing("too late"))
    statistics = recorder.statistics()
    assert (statistics.pending, statistics.dropped_total[DropReason.CLOSED]) == (0, 1)


async def test_closing_ends_at_the_deadline_when_the_server_hangs(caplog: pytest.LogCaptureFixture) -> None:
    server = EventServer(always=Slow(ENDLESS))
    recorder = make_recorder(server)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.run)
        for n in range(3):
            record(recorder, thing(f"thing-{n}"))
        await anyio.sleep(1)
        assert not await recorder.aclose(5)
    assert anyio.current_time() == 6
    assert recorder.statistics().dropped_total[DropReason.CLOSED] == 3
    assert vars(caplog.records[-1])["series"] == 3


async def test_closing_a_recorder_that_never_ran_or_was_cancelled_does_not_wait() -> None:
    recorder = make_recorder(EventServer())
    record(recorder)
    assert not await recorder.aclose(5)
    recorder = make_recorder(EventServer())
    async with running(recorder):
        await anyio.sleep(1)
    assert await recorder.aclose(5)
    assert anyio.current_time() == 1


async def test_closing_before_the_first_step_of_run_lets_it_end() -> None:
    recorder = make_recorder(EventServer())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.run)
        await recorder.aclose(5)
    assert anyio.current_time() == 0


def test_the_repr_of_a_recorder_is_one_line() -> None:
    recorder = make_recorder(EventServer())
    assert repr(recorder) == "<EventRecorder example.com/controller controller-0 pending=0 series=0>"
