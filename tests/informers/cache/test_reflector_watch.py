"""The reflector's watches: when they open, how they end, what comes next. Ids are those of the checklist."""

import logging
from itertools import pairwise
from random import Random

import anyio
import pytest

from informers.cache.reflector import IDLE_SECONDS, REFUSED_RETRY_SECONDS, Reflector
from informers.cache.reflector_state import BackingOff, Listing, State, Watching
from informers.cache.store import ObjectKey, Store
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
from tests.informers.recorder import describe_change
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
    """A reflector that has listed version 1, empty, and goes on with these watches."""

    def __init__(self, *watches: WatchReply, lists: tuple[ListReply, ...] = ()) -> None:
        self.api = ScriptedApi(lists=[page(1), *lists], watches=list(watches))
        self.store: Store[Thing] = Store()
        self.reflector = Reflector(self.api, THINGS, self.store, rng=Random(0))

    async def until_watches(self, count: int) -> State:
        """Step until `count` watches have ended; what comes then."""
        state: State = Listing()
        while len(self.api.asked_watches) < count:
            state = await self.reflector.step(state)
        return state

    @property
    def versions(self) -> list[str]:
        """What each watch was asked to go on from."""
        return [asked.resource_version for asked in self.api.asked_watches]


async def test_w1_the_server_is_asked_to_close_after_300_to_600_seconds_at_random() -> None:
    watched = Watched(*[[2.0]] * 50)
    await watched.until_watches(50)
    asked = [watch.timeout_seconds for watch in watched.api.asked_watches]
    assert all(300 <= seconds <= 600 for seconds in asked)
    assert max(asked) - min(asked) > 200
    assert {watch.idle_seconds for watch in watched.api.asked_watches} == {IDLE_SECONDS}


async def test_w2_silence_leads_to_a_new_watch_from_the_last_version_without_a_list() -> None:
    watched = Watched([added(thing("a", 5)), Step.SILENCE], [Step.SILENCE])
    state = await watched.until_watches(1)
    assert state == Watching()
    assert anyio.current_time() == IDLE_SECONDS
    await watched.reflector.step(state)
    assert watched.versions == ["1", "5"]
    assert len(watched.api.asked_lists) == 1


async def test_w3_a_watch_that_is_never_answered_is_opened_again_without_a_list() -> None:
    watched = Watched(*[Refused(OutcomeUnknown("no first byte"))] * 5)
    state = await watched.until_watches(5)
    assert isinstance(state, BackingOff)
    assert state.then == Watching()
    assert len(watched.api.asked_lists) == 1


async def test_w4_a_clean_close_leads_to_a_new_watch_from_the_last_version_at_once() -> None:
    watched = Watched([added(thing(f"thing-{version}", version)) for version in range(2, 12)], [5.0])
    assert await watched.until_watches(2) == Watching()
    assert watched.versions == ["1", "11"]
    assert len(watched.api.asked_lists) == 1
    assert [watch.at_seconds for watch in watched.api.asked_watches] == [0, 0]
    assert watched.reflector.statistics().failures_total == 0


async def test_w5_a_server_that_closes_at_once_is_asked_ever_more_rarely() -> None:
    watched = Watched(*[[]] * 20, lists=(page(1),) * 10)
    with anyio.move_on_after(10):
        await watched.reflector.run()
    assert len(watched.api.asked_watches) + len(watched.api.asked_lists) < 10
    assert watched.reflector.statistics().short_watches_total == len(watched.api.asked_watches)


async def test_w5_a_bookmark_of_the_same_version_is_no_progress() -> None:
    assert isinstance(await Watched([bookmark(1)]).until_watches(1), BackingOff)
    assert await Watched([bookmark(2)]).until_watches(1) == Watching()


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
async def test_w6_a_watch_that_cannot_be_opened_is_tried_again_without_a_list(refusal: ApiError) -> None:
    watched = Watched(*[Refused(refusal)] * 6, [added(thing("a", 2))])
    await watched.until_watches(7)
    assert len(watched.api.asked_lists) == 1
    assert set(watched.versions) == {"1"}
    assert watched.store.get(ObjectKey("space", "a")) is not None
    pauses = [after.at_seconds - before.at_seconds for before, after in pairwise(watched.api.asked_watches)]
    bounds = [(base, 2 * base) for base in (0.8, 1.6, 3.2, 6.4, 12.8, 25.6)]
    assert all(low <= pause <= high for pause, (low, high) in zip(pauses, bounds, strict=True))


@pytest.mark.parametrize("refusal", [TooManyRequests, ServerError])
async def test_w7_retry_after_is_a_minimum_for_watches(
    refusal: type[TooManyRequests | ServerError],
) -> None:
    watched = Watched(Refused(refusal("wait", retry_after_seconds=7.0)))
    assert await watched.until_watches(1) == BackingOff(7.0, then=Watching())


@pytest.mark.parametrize("error", [Gone("too old"), TooLargeResourceVersion("in the future")])
@pytest.mark.parametrize("opened", [False, True])
async def test_w8_a_version_that_cannot_be_watched_leads_to_a_list_at_the_last_version(
    error: ApiError, opened: bool
) -> None:
    if opened:
        watched, last = Watched([bookmark(7), error]), "7"
    else:
        watched, last = Watched(Refused(error)), "1"
    state = await watched.until_watches(1)
    assert isinstance(state, BackingOff)
    assert state.then == Listing(last)


@pytest.mark.parametrize("error", [BadRequest("400"), ServerError("500"), ServerError("504", status=504)])
async def test_w9_an_error_event_is_followed_by_a_few_more_watches_and_then_by_a_list(
    error: ApiError,
) -> None:
    watched = Watched([error], [error], [error], [added(thing("a", 3))], lists=(page(2),))
    await watched.until_watches(4)
    assert watched.versions == ["1", "1", "1", "2"]
    assert [asked.resource_version for asked in watched.api.asked_lists] == ["", "1"]


async def test_w9_progress_between_errors_makes_a_list_needless() -> None:
    watches: list[WatchReply] = [[bookmark(version), ServerError("storage")] for version in range(2, 12)]
    watched = Watched(*watches)
    state = await watched.until_watches(10)
    assert isinstance(state, BackingOff)
    assert state.then == Watching()
    assert len(watched.api.asked_lists) == 1


async def test_w10_bookmarks_move_the_version_that_the_next_watch_goes_on_from() -> None:
    watched = Watched([added(thing("a", 2)), bookmark(50)], [5.0])
    await watched.until_watches(2)
    assert watched.versions == ["1", "50"]
    assert len(watched.store) == 1


async def test_w10_a_server_without_bookmarks_works_and_a_quiet_one_is_asked_where_we_stand() -> None:
    quiet: list[WatchReply] = [[Step.SILENCE]] * 3
    watched = Watched(*quiet, *quiet, [added(thing("a", 2))], lists=(page(1), page(1)))
    await watched.until_watches(7)
    assert [asked.resource_version for asked in watched.api.asked_lists] == ["", "1", "1"]
    assert len(watched.store) == 1
    # Silence is not punished with growing pauses on top of it.
    assert watched.api.asked_watches[-1].at_seconds < 6 * IDLE_SECONDS + 2 * 3.2


async def test_l12_a_bookmark_from_the_past_leads_to_a_consistent_list(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched([added(thing("a", 300)), bookmark(100)], lists=(page(100),))
    state = await watched.until_watches(1)
    assert isinstance(state, BackingOff)
    assert state.then == Listing()
    assert await watched.reflector.step(await watched.reflector.step(state)) == Watching()
    assert watched.store.keys() == ()
    assert watched.store.resource_version == "100"
    assert "went back in time" in caplog.text


async def test_w11_an_unreadable_event_is_counted_and_logged_and_the_next_is_taken_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched([added(bad_thing("odd", 2)), added(thing("a", 3)), deleted(bad_thing("odd", 4))])
    await watched.until_watches(1)
    assert watched.store.get(ObjectKey("space", "a")) is not None
    assert watched.store.resource_version == "4"
    assert watched.reflector.statistics().decode_errors_total == 1
    assert "space/odd (version 2) cannot be decoded" in caplog.text


async def test_w16_a_watch_on_a_resource_that_vanished_leads_to_slow_lists_until_it_is_back() -> None:
    absent = NotFound("the server could not find the requested resource")
    watched = Watched(Refused(absent), [added(thing("a", 9))], lists=(absent, page(8)))
    await watched.until_watches(2)
    assert [asked.resource_version for asked in watched.api.asked_lists] == ["", "1", "1"]
    assert watched.api.asked_lists[1].at_seconds >= REFUSED_RETRY_SECONDS
    assert watched.api.asked_lists[2].at_seconds >= 2 * REFUSED_RETRY_SECONDS
    assert watched.store.get(ObjectKey("space", "a")) is not None
    assert watched.reflector.problem is None


async def test_w17_a_watch_that_is_forbidden_is_loud_and_does_not_turn_into_polling(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(*[Refused(Forbidden("no right to watch things"))] * 10)
    await watched.until_watches(10)
    assert len(watched.api.asked_lists) == 1
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "things.example.com: cannot watch: Forbidden: no right to watch things" in warnings[0]
    assert watched.reflector.problem is not None


async def test_w20_replays_after_a_reconnection_are_not_told() -> None:
    watched = Watched(
        [added(thing("a", 2)), modified(thing("a", 3)), deleted(thing("a", 4))],
        [added(thing("a", 2)), modified(thing("a", 3)), deleted(thing("a", 4)), 5.0],
    )
    told: list[str] = []
    watched.store.subscribe(lambda change: told.append(describe_change(change)))
    await watched.until_watches(2)
    assert told == ["synced", "+a@2", "~a@3", "-a@4"]


async def test_l13_a_resource_that_fails_does_not_disturb_another() -> None:
    failing = Watched(*[Refused(Forbidden("no"))] * 100)
    well = Watched([1.0, added(thing("a", 2)), 1.0, modified(thing("a", 3)), Step.HANG])
    with anyio.move_on_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(failing.reflector.run)
            tasks.start_soon(well.reflector.run)
    assert well.store.resource_version == "3"
    assert well.reflector.statistics().failures_total == 0
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
        await watched.until_watches(1)
        tasks.cancel_scope.cancel()
    assert turns >= 10_000 / 250


async def test_the_state_and_the_problem_are_in_the_repr() -> None:
    watched = Watched(Refused(Unreachable("connection refused")))
    await watched.until_watches(1)
    assert repr(watched.reflector) == (
        "<Reflector things.example.com Watching(fruitless=0) "
        "problem=cannot watch: Unreachable: connection refused>"
    )
