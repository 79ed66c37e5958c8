"""The reflector's watches: how they open and end, and the next state. Test names contain checklist IDs."""

import logging
from dataclasses import replace
from itertools import pairwise
from random import Random

import anyio
import pytest

from informers.api import ObjectKey
from informers.cache.reflector import IDLE_SECONDS, REFUSED_RETRY_SECONDS, Reflector
from informers.cache.reflector_state import BackingOff, Listing, State, Watching
from informers.cache.store import Store
from informers.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TooLargeResourceVersion,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from tests.informers.recorder import describe_change, keys
from tests.informers.scripted_api import (
    THINGS,
    ListReply,
    Refused,
    ScriptedApi,
    Step,
    Thing,
    WatchReply,
    added,
    bad_thing,
    bookmark,
    deleted,
    modified,
    page,
    thing,
)
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


class Watched:
    """A reflector with an empty list of version 1, followed by scripted watches."""

    def __init__(self, *watches: WatchReply, lists: tuple[ListReply, ...] = ()) -> None:
        self.api = ScriptedApi(lists=[page(1), *lists], watches=list(watches))
        self.store: Store[Thing] = Store()
        self.reflector = Reflector(self.api, THINGS, self.store, rng=Random(0))

    async def run_watches(self, count: int) -> State:
        """Step until `count` watches have ended; return the next state."""
        state: State = Listing()
        while len(self.api.watch_requests) < count:
            state = await self.reflector.step(state)
        return state

    @property
    def versions(self) -> list[str]:
        """The version that each watch started from."""
        return [request.resource_version for request in self.api.watch_requests]


async def test_w1_watches_have_a_random_timeout_of_300_to_600_seconds() -> None:
    watched = Watched(*[[2.0]] * 50)
    await watched.run_watches(50)
    timeouts = [watch.timeout_seconds for watch in watched.api.watch_requests]
    assert all(300 <= seconds <= 600 for seconds in timeouts)
    assert max(timeouts) - min(timeouts) > 200
    assert {watch.idle_seconds for watch in watched.api.watch_requests} == {IDLE_SECONDS}


async def test_w2_silence_leads_to_a_new_watch_from_the_last_version_without_a_list() -> None:
    watched = Watched([added(thing("a", 5)), Step.SILENCE], [Step.SILENCE])
    state = await watched.run_watches(1)
    assert state == Watching()
    assert anyio.current_time() == IDLE_SECONDS
    await watched.reflector.step(state)
    assert watched.versions == ["1", "5"]
    assert len(watched.api.list_requests) == 1


async def test_w3_an_unanswered_watch_is_reopened_without_a_list() -> None:
    watched = Watched(*[Refused(OutcomeUnknown("no first byte"))] * 5)
    state = await watched.run_watches(5)
    assert isinstance(state, BackingOff)
    assert state.then == Watching()
    assert len(watched.api.list_requests) == 1


async def test_w4_a_clean_close_leads_to_a_new_watch_from_the_last_version_at_once() -> None:
    watched = Watched([added(thing(f"thing-{version}", version)) for version in range(2, 12)], [5.0])
    assert await watched.run_watches(2) == Watching()
    assert watched.versions == ["1", "11"]
    assert len(watched.api.list_requests) == 1
    assert [watch.at_seconds for watch in watched.api.watch_requests] == [0, 0]
    assert watched.reflector.statistics().failures_total == 0


async def test_w5_watches_that_close_at_once_back_off() -> None:
    watched = Watched(*[[]] * 20, lists=(page(1),) * 10)
    with anyio.move_on_after(10):
        await watched.reflector.run()
    assert len(watched.api.watch_requests) + len(watched.api.list_requests) < 10
    assert watched.reflector.statistics().short_watches_total == len(watched.api.watch_requests)


async def test_w5_a_bookmark_of_the_same_version_is_not_progress() -> None:
    assert isinstance(await Watched([bookmark(1)]).run_watches(1), BackingOff)
    assert await Watched([bookmark(2)]).run_watches(1) == Watching()


@pytest.mark.parametrize(
    "refusal",
    [
        Unreachable("connection refused"),
        OutcomeUnknown("connection reset"),
        TooManyRequests("busy"),
        Unauthorized("token expired"),
        ServerError("bad gateway", status=502),
    ],
)
async def test_w6_a_watch_that_cannot_be_opened_is_retried_without_a_list(refusal: ApiError) -> None:
    watched = Watched(*[Refused(refusal)] * 6, [added(thing("a", 2))])
    await watched.run_watches(7)
    assert len(watched.api.list_requests) == 1
    assert set(watched.versions) == {"1"}
    assert watched.store.get(ObjectKey("space", "a")) is not None
    delays = [after.at_seconds - before.at_seconds for before, after in pairwise(watched.api.watch_requests)]
    bounds = [(base, 2 * base) for base in (0.8, 1.6, 3.2, 6.4, 12.8, 25.6)]
    assert all(low <= delay <= high for delay, (low, high) in zip(delays, bounds, strict=True))


@pytest.mark.parametrize("refusal", [TooManyRequests, ServerError])
async def test_w7_retry_after_is_a_minimum_for_watches(
    refusal: type[TooManyRequests | ServerError],
) -> None:
    watched = Watched(Refused(refusal("wait", retry_after_seconds=7.0)))
    assert await watched.run_watches(1) == BackingOff(7.0, then=Watching())


@pytest.mark.parametrize("error", [Gone("too old"), TooLargeResourceVersion("in the future")])
@pytest.mark.parametrize("opened", [False, True])
async def test_w8_a_version_that_cannot_be_watched_leads_to_a_list_at_the_last_version(
    error: ApiError, opened: bool
) -> None:
    if opened:
        watched, last = Watched([bookmark(7), error]), "7"
    else:
        watched, last = Watched(Refused(error)), "1"
    state = await watched.run_watches(1)
    assert isinstance(state, BackingOff)
    assert state.then == Listing(last)


@pytest.mark.parametrize("error", [BadRequest("400"), ServerError("500"), ServerError("504", status=504)])
async def test_w9_repeated_error_events_lead_to_a_list(
    error: ApiError,
) -> None:
    watched = Watched([error], [error], [error], [added(thing("a", 3))], lists=(page(2),))
    await watched.run_watches(4)
    assert watched.versions == ["1", "1", "1", "2"]
    assert [request.resource_version for request in watched.api.list_requests] == ["", "1"]


async def test_w9_progress_between_errors_avoids_a_list() -> None:
    watches: list[WatchReply] = [[bookmark(version), ServerError("storage")] for version in range(2, 12)]
    watched = Watched(*watches)
    state = await watched.run_watches(10)
    assert isinstance(state, BackingOff)
    assert state.then == Watching()
    assert len(watched.api.list_requests) == 1


async def test_w10_bookmarks_move_the_version_of_the_next_watch() -> None:
    watched = Watched([added(thing("a", 2)), bookmark(50)], [5.0])
    await watched.run_watches(2)
    assert watched.versions == ["1", "50"]
    assert len(watched.store) == 1


async def test_w10_a_server_without_bookmarks_works_and_a_silent_one_is_listed_again() -> None:
    silent: list[WatchReply] = [[Step.SILENCE]] * 3
    watched = Watched(*silent, *silent, [added(thing("a", 2))], lists=(page(1), page(1)))
    await watched.run_watches(7)
    assert [request.resource_version for request in watched.api.list_requests] == ["", "1", "1"]
    assert len(watched.store) == 1
    # Silence does not add growing back-off delays.
    assert watched.api.watch_requests[-1].at_seconds < 6 * IDLE_SECONDS + 2 * 3.2


async def test_l12_an_older_bookmark_leads_to_a_consistent_list(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched([added(thing("a", 300)), bookmark(100)], lists=(page(100),))
    state = await watched.run_watches(1)
    assert isinstance(state, BackingOff)
    assert state.then == Listing()
    assert await watched.reflector.step(await watched.reflector.step(state)) == Watching()
    assert keys(watched.store) == ()
    assert watched.store.resource_version == "100"
    assert "Server returned an older resourceVersion" in caplog.text


async def test_w11_an_unreadable_event_is_counted_and_logged_and_the_next_is_applied(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched([added(bad_thing("odd", 2)), added(thing("a", 3)), deleted(bad_thing("odd", 4))])
    await watched.run_watches(1)
    assert watched.store.get(ObjectKey("space", "a")) is not None
    assert watched.store.resource_version == "4"
    assert watched.reflector.statistics().decode_errors_total == 1
    logged = vars(caplog.records[0])
    assert (logged["resource"], logged["key"], logged["version"]) == ("things.example.com", "space/odd", "2")


async def test_an_unreadable_object_is_logged_once_for_each_error(caplog: pytest.LogCaptureFixture) -> None:
    versions = [bad_thing("odd", version) for version in (2, 3)]
    other_error = replace(bad_thing("odd", 4), error="another error")
    watched = Watched([*map(modified, versions), modified(other_error), modified(bad_thing("other", 5))])
    await watched.run_watches(1)
    assert watched.reflector.statistics().decode_errors_total == 4
    logged = [(vars(record)["key"], vars(record)["version"]) for record in caplog.records]
    assert logged == [("space/odd", "2"), ("space/odd", "4"), ("space/other", "5")]


async def test_w16_a_removed_resource_is_listed_slowly_until_it_returns() -> None:
    absent = NotFound("the server could not find the requested resource")
    watched = Watched(Refused(absent), [added(thing("a", 9))], lists=(absent, page(8)))
    await watched.run_watches(2)
    assert [request.resource_version for request in watched.api.list_requests] == ["", "1", "1"]
    assert watched.api.list_requests[1].at_seconds >= REFUSED_RETRY_SECONDS
    assert watched.api.list_requests[2].at_seconds >= 2 * REFUSED_RETRY_SECONDS
    assert watched.store.get(ObjectKey("space", "a")) is not None
    assert watched.reflector.problem is None


async def test_w17_a_forbidden_watch_is_logged_and_does_not_turn_into_polling(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(*[Refused(Forbidden("no right to watch things"))] * 10)
    await watched.run_watches(10)
    assert len(watched.api.list_requests) == 1
    (warning,) = [vars(record) for record in caplog.records if record.levelno == logging.WARNING]
    assert warning["resource"] == "things.example.com"
    assert warning["err"] == "cannot watch: Forbidden: no right to watch things"
    assert watched.reflector.problem is not None


async def test_w20_replayed_events_after_a_reconnection_are_not_reported() -> None:
    watched = Watched(
        [added(thing("a", 2)), modified(thing("a", 3)), deleted(thing("a", 4))],
        [added(thing("a", 2)), modified(thing("a", 3)), deleted(thing("a", 4)), 5.0],
    )
    reported: list[str] = []
    watched.store.subscribe(lambda change: reported.append(describe_change(change)))
    await watched.run_watches(2)
    assert reported == ["synced", "+a@2", "~a@3", "-a@4"]


async def test_l13_a_failing_resource_does_not_affect_another() -> None:
    failing = Watched(*[Refused(Forbidden("no"))] * 100)
    healthy = Watched([1.0, added(thing("a", 2)), 1.0, modified(thing("a", 3)), Step.HANG])
    with anyio.move_on_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(failing.reflector.run)
            tasks.start_soon(healthy.reflector.run)
    assert healthy.store.resource_version == "3"
    assert healthy.reflector.statistics().failures_total == 0
    assert 2 <= failing.reflector.statistics().failures_total <= 7


async def test_a_burst_of_events_lets_other_tasks_run() -> None:
    turns = 0

    async def heartbeat() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    watched = Watched([added(thing(f"thing-{version}", version)) for version in range(2, 10_002)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heartbeat)
        await watched.run_watches(1)
        tasks.cancel_scope.cancel()
    assert turns >= 10_000 / 250


async def test_the_repr_shows_the_state_and_the_problem() -> None:
    watched = Watched(Refused(Unreachable("connection refused")))
    await watched.run_watches(1)
    assert repr(watched.reflector) == (
        "<Reflector things.example.com Watching(fruitless=0) "
        "problem=cannot watch: Unreachable: connection refused>"
    )
