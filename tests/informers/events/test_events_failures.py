"""Events that the server rejects or fails to store; no error reaches the caller of `record`."""

from __future__ import annotations

import logging
import random
from itertools import pairwise

import anyio
import pytest

from informers.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Undecodable,
    Unreachable,
)
from informers.events.recorder import DropReason, RecorderLimits
from tests.informers.events.event_server import (
    EventServer,
    Lost,
    Reply,
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


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(logged)["err"] for logged in caplog.records if logged.levelno >= logging.WARNING]


@pytest.mark.parametrize("error", [Forbidden("no right", status=403), NotFound("no namespace", status=404)])
async def test_a_missing_permission_or_namespace_is_logged_once_and_never_retried(
    error: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    server = EventServer(always=error)
    recorder = make_recorder(server)
    async with running(recorder):
        for n in range(20):
            record(recorder, thing(f"thing-{n}"))
        await anyio.sleep(1000)
    assert len(server.requests) == 20
    assert recorder.statistics().dropped_total[DropReason.FORBIDDEN] == 20
    assert len(warnings(caplog)) == 1


async def test_the_warning_is_repeated_after_a_successful_write(caplog: pytest.LogCaptureFixture) -> None:
    server = EventServer([Forbidden("a"), Forbidden("b"), None, Forbidden("c")])
    recorder = make_recorder(server)
    async with running(recorder):
        for n in range(4):
            record(recorder, thing(f"thing-{n}"))
        await anyio.sleep(10)
    assert warnings(caplog) == ["Forbidden: a", "Forbidden: c"]


@pytest.mark.parametrize(
    "error",
    [
        Conflict("stale", status=409),
        AlreadyExists("exists", status=409),
        Invalid("bad", status=422),
        BadRequest("worse", status=400),
        Undecodable("no JSON"),
    ],
)
async def test_rejected_events_are_dropped_without_a_warning(
    error: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    server = EventServer([error])
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        record(recorder, thing("other"))
        await anyio.sleep(1000)
    assert [event["regarding"]["name"] for event in server.objects.values()] == ["other"]
    assert recorder.statistics().dropped_total[DropReason.REJECTED] == 1
    assert not warnings(caplog)


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("refused"),
        ServerError("down"),
        OutcomeUnknown("reset"),
        Unauthorized("expired", status=401),
        TooManyRequests("patience"),
    ],
)
async def test_transient_errors_are_retried(error: ApiError) -> None:
    server = EventServer([error, error])
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        await anyio.sleep(100)
    assert [r.verb for r in server.requests] == ["create"] * 3
    assert len({r.name for r in server.requests}) == 1
    assert recorder.statistics().created_total == 1


async def test_attempts_are_bounded_and_delays_grow(caplog: pytest.LogCaptureFixture) -> None:
    server = EventServer(always=Unreachable("refused"))
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        record(recorder, thing("other"))
        await anyio.sleep(1000)
    attempts = [r.at_seconds for r in server.requests if r.name.startswith("thing.")]
    delays = [later - earlier for earlier, later in pairwise(attempts)]
    assert len(attempts) == 6
    assert all(0.8 * 2**n <= delay <= 2**n for n, delay in enumerate(delays))
    assert recorder.statistics().dropped_total[DropReason.RETRIES] == 2
    assert len(warnings(caplog)) == 1


async def test_attempts_are_counted_per_write() -> None:
    faults: list[Reply] = [Unreachable("refused")] * 5
    server = EventServer([*faults, None, *faults])
    recorder = make_recorder(server)
    async with running(recorder):
        for _ in range(2):
            record(recorder)
            await anyio.sleep(200)
    assert len(server.requests) == 12
    assert server.counts() == [2]


async def test_retry_after_is_a_minimum() -> None:
    server = EventServer([TooManyRequests("patience", retry_after_seconds=20)])
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        await anyio.sleep(100)
    assert [r.at_seconds for r in server.requests] == [0, 20]


async def test_a_failed_event_does_not_delay_the_others() -> None:
    server = EventServer([ServerError("a broken webhook")])
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        record(recorder, thing("other"))
        await anyio.sleep(0.5)
        assert [event["regarding"]["name"] for event in server.objects.values()] == ["other"]


async def test_a_repeat_after_a_failure_sends_the_whole_series() -> None:
    server = EventServer([Forbidden("not yet")])
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        await anyio.sleep(30)
        record(recorder)
        await anyio.sleep(100)
    assert [(r.at_seconds, r.verb, r.count) for r in server.requests] == [(0, "create", 1), (60, "create", 2)]


async def test_a_create_whose_response_was_lost_makes_one_event() -> None:
    server = EventServer([Lost(OutcomeUnknown("reset"))])
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        await anyio.sleep(0.5)
        record(recorder)
        await anyio.sleep(100)
    assert [r.verb for r in server.requests] == ["create", "create", "patch"]
    assert server.counts() == [2]
    assert recorder.statistics().created_total == 1


async def test_a_name_that_exists_is_not_used_again() -> None:
    server = EventServer([AlreadyExists("taken", status=409)])
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        await anyio.sleep(100)
        record(recorder)
        await anyio.sleep(100)
    assert len({r.name for r in server.requests}) == 2
    assert server.counts() == [2]


async def test_an_unexpected_error_affects_neither_the_recorder_nor_the_next_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = EventServer([KeyError("a bug")])
    recorder = make_recorder(server)
    async with running(recorder):
        record(recorder)
        record(recorder, thing("other"))
        await anyio.sleep(10)
    assert server.only["regarding"]["name"] == "other"
    assert recorder.statistics().dropped_total[DropReason.UNFORESEEN] == 1
    assert "a bug" in caplog.text


async def test_closing_tries_each_series_once_without_delay() -> None:
    server = EventServer(always=Unreachable("refused"))
    recorder = make_recorder(server)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.run)
        for n in range(3):
            record(recorder, thing(f"thing-{n}"))
        await anyio.sleep(0.5)
        assert await recorder.aclose(60)
    assert anyio.current_time() == 0.5
    assert len(server.requests) == 6
    assert recorder.statistics().dropped_total[DropReason.RETRIES] == 3


@pytest.mark.parametrize("seed", range(30))
async def test_every_event_is_counted_exactly_once_with_any_transient_errors(seed: int) -> None:
    rng = random.Random(seed)
    faults: list[Reply] = [None, Unreachable("refused"), ServerError("down"), OutcomeUnknown("reset")]
    faults += [Lost(ServerError("late")), Lost(OutcomeUnknown("lost"))]
    server = EventServer([rng.choice(faults) for _ in range(200)])
    recorder = make_recorder(server, RecorderLimits(tries_max=1000, object_burst=1000), seed=seed)
    async with running(recorder):
        for _ in range(300):
            record(recorder, thing(rng.choice("abc")), reason=rng.choice(["Painted", "Sold"]))
            await anyio.sleep(rng.choice([0, 0.1, 5, 30, 400]))
        await anyio.sleep(4000)
    statistics = recorder.statistics()
    assert sum(server.counts()) == statistics.recorded_total == 300
    assert statistics.created_total == len(server.objects)
    assert statistics.pending == 0
    assert not any(statistics.dropped_total.values())
