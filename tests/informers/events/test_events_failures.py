"""What becomes of events that the server does not take, and that nothing of it reaches those who record."""

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
from tests.informers.events.event_server import EventServer, Lost, Reply, make_recorder, running, say, thing
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("error", [Forbidden("no right", status=403), NotFound("no namespace", status=404)])
async def test_a_missing_right_or_namespace_is_warned_of_once_and_never_retried(
    error: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    server = EventServer(always=error)
    recorder = make_recorder(server)
    async with running(recorder):
        for n in range(20):
            say(recorder, thing(f"thing-{n}"))
        await anyio.sleep(1000)
    assert len(server.requests) == 20
    assert recorder.statistics().dropped_total[DropReason.FORBIDDEN] == 20
    assert len(warnings(caplog)) == 1


async def test_it_is_warned_of_again_after_something_was_accepted(caplog: pytest.LogCaptureFixture) -> None:
    server = EventServer([Forbidden("a"), Forbidden("b"), None, Forbidden("c")])
    recorder = make_recorder(server)
    async with running(recorder):
        for n in range(4):
            say(recorder, thing(f"thing-{n}"))
        await anyio.sleep(10)
    assert [text.rsplit(" ", 1)[1] for text in warnings(caplog)] == ["a", "c"]


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
async def test_what_is_never_taken_is_dropped_without_a_word(
    error: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    server = EventServer([error])
    recorder = make_recorder(server)
    async with running(recorder):
        say(recorder)
        say(recorder, thing("other"))
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
async def test_what_may_be_taken_later_is_tried_again(error: ApiError) -> None:
    server = EventServer([error, error])
    recorder = make_recorder(server)
    async with running(recorder):
        say(recorder)
        await anyio.sleep(100)
    assert [r.verb for r in server.requests] == ["create"] * 3
    assert len({r.name for r in server.requests}) == 1
    assert recorder.statistics().created_total == 1


async def test_tries_are_bounded_and_pauses_grow(caplog: pytest.LogCaptureFixture) -> None:
    server = EventServer(always=Unreachable("refused"))
    recorder = make_recorder(server)
    async with running(recorder):
        say(recorder)
        say(recorder, thing("other"))
        await anyio.sleep(1000)
    tries = [r.at_seconds for r in server.requests if r.name.startswith("thing.")]
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert len(tries) == 6
    assert all(0.8 * 2**n <= pause <= 2**n for n, pause in enumerate(pauses))
    assert recorder.statistics().dropped_total[DropReason.RETRIES] == 2
    assert len(warnings(caplog)) == 1


async def test_tries_are_counted_anew_for_the_next_write() -> None:
    faults: list[Reply] = [Unreachable("refused")] * 5
    server = EventServer([*faults, None, *faults])
    recorder = make_recorder(server)
    async with running(recorder):
        for _ in range(2):
            say(recorder)
            await anyio.sleep(200)
    assert len(server.requests) == 12
    assert server.counts() == [2]


async def test_a_server_that_names_a_time_is_not_asked_before_it() -> None:
    server = EventServer([TooManyRequests("patience", retry_after_seconds=20)])
    recorder = make_recorder(server)
    async with running(recorder):
        say(recorder)
        await anyio.sleep(100)
    assert [r.at_seconds for r in server.requests] == [0, 20]


async def test_one_event_that_fails_does_not_hold_up_the_others() -> None:
    server = EventServer([ServerError("a broken webhook")])
    recorder = make_recorder(server)
    async with running(recorder):
        say(recorder)
        say(recorder, thing("other"))
        await anyio.sleep(0.5)
        assert [event["regarding"]["name"] for event in server.objects.values()] == ["other"]


async def test_a_repeat_after_a_failure_tells_of_everything_that_happened() -> None:
    server = EventServer([Forbidden("not yet")])
    recorder = make_recorder(server)
    async with running(recorder):
        say(recorder)
        await anyio.sleep(30)
        say(recorder)
        await anyio.sleep(100)
    assert [(r.at_seconds, r.verb, r.count) for r in server.requests] == [(0, "create", 1), (60, "create", 2)]


async def test_a_create_whose_answer_was_lost_makes_one_event() -> None:
    server = EventServer([Lost(OutcomeUnknown("reset"))])
    recorder = make_recorder(server)
    async with running(recorder):
        say(recorder)
        await anyio.sleep(0.5)
        say(recorder)
        await anyio.sleep(100)
    assert [r.verb for r in server.requests] == ["create", "create", "patch"]
    assert server.counts() == [2]
    assert recorder.statistics().created_total == 1


async def test_a_name_that_another_took_is_not_used_again() -> None:
    server = EventServer([AlreadyExists("taken", status=409)])
    recorder = make_recorder(server)
    async with running(recorder):
        say(recorder)
        await anyio.sleep(100)
        say(recorder)
        await anyio.sleep(100)
    assert len({r.name for r in server.requests}) == 2
    assert server.counts() == [2]


async def test_an_error_that_nobody_thought_of_ends_neither_the_recorder_nor_the_next_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = EventServer([KeyError("a bug")])
    recorder = make_recorder(server)
    async with running(recorder):
        say(recorder)
        say(recorder, thing("other"))
        await anyio.sleep(10)
    assert server.only["regarding"]["name"] == "other"
    assert recorder.statistics().dropped_total[DropReason.UNFORESEEN] == 1
    assert "a bug" in caplog.text


async def test_closing_tries_once_and_pauses_for_nothing() -> None:
    server = EventServer(always=Unreachable("refused"))
    recorder = make_recorder(server)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.run)
        for n in range(3):
            say(recorder, thing(f"thing-{n}"))
        await anyio.sleep(0.5)
        assert await recorder.aclose(60)
    assert anyio.current_time() == 0.5
    assert len(server.requests) == 6
    assert recorder.statistics().dropped_total[DropReason.RETRIES] == 3


@pytest.mark.parametrize("seed", range(30))
async def test_every_event_is_told_exactly_once_whatever_fails_in_passing(seed: int) -> None:
    rng = random.Random(seed)
    faults: list[Reply] = [None, Unreachable("refused"), ServerError("down"), OutcomeUnknown("reset")]
    faults += [Lost(ServerError("late")), Lost(OutcomeUnknown("lost"))]
    server = EventServer([rng.choice(faults) for _ in range(200)])
    recorder = make_recorder(server, RecorderLimits(tries_max=1000, object_burst=1000), seed=seed)
    async with running(recorder):
        for _ in range(300):
            say(recorder, thing(rng.choice("abc")), reason=rng.choice(["Painted", "Sold"]))
            await anyio.sleep(rng.choice([0, 0.1, 5, 30, 400]))
        await anyio.sleep(4000)
    statistics = recorder.statistics()
    assert sum(server.counts()) == statistics.recorded_total == 300
    assert statistics.created_total == len(server.objects)
    assert statistics.pending == 0
    assert not any(statistics.dropped_total.values())
