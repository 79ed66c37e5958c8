"""The shared informer: relists, sync, failures, stopping. Test names contain checklist IDs."""

import asyncio
from collections.abc import Callable
from random import Random

import anyio
import anyio.lowlevel
import pytest

from informers.api import Selectors
from informers.cache.informer import STUCK_SECONDS, NotSynced, SharedInformer, WatcherEnded
from informers.errors import Forbidden, Gone, TooManyRequests, Unreachable
from tests.informers.recorder import replace
from tests.informers.running import idle, informer_of, running
from tests.informers.scripted_api import (
    THINGS,
    Recorder,
    Refused,
    ScriptedApi,
    Step,
    Thing,
    added,
    page,
    thing,
)
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


@pytest.mark.parametrize("inline", [False, True])
async def test_l7_a_relist_reports_objects_deleted_during_the_disconnection(inline: bool) -> None:
    informer = informer_of(
        [added(thing("b", 2)), Gone("too old")], lists=(page(1, thing("a", 1)), page(9, thing("c", 8)))
    )
    recorder = Recorder().add_to(informer, inline=inline)
    async with running(informer):
        await anyio.sleep(5)
    assert recorder.changes == ["*a@1", "+b@2", "-a@1", "-b@2", "+c@8"]


async def test_l8_objects_only_in_the_handler_queue_count_as_known_to_a_relist() -> None:
    informer = informer_of()
    recorder = Recorder().add_to(informer)
    async with running(informer):
        informer.store.apply_event(added(thing("a", 2)))
        replace(informer.store, informer.store.begin_list(), "3")
        assert recorder.changes == []
    assert recorder.changes == ["+a@2", "-a@2"]


async def test_l9_a_relist_of_the_same_versions_reports_nothing() -> None:
    things = (thing("a", 1), thing("b", 1))
    informer = informer_of([Gone("too old")], lists=(page(1, *things), page(9, *things)))
    recorder = Recorder().add_to(informer)
    async with running(informer):
        await anyio.sleep(5)
        assert informer.store.resource_version == "9"
    assert recorder.changes == ["*a@1", "*b@1"]


async def test_l10_an_object_recreated_while_disconnected_is_a_deletion_and_an_addition() -> None:
    informer = informer_of(
        [Gone("too old")], lists=(page(1, thing("a", 1, uid="old")), page(9, thing("a", 5, uid="new")))
    )
    recorder = Recorder().add_to(informer)
    async with running(informer):
        await anyio.sleep(5)
    assert recorder.changes == ["*a@1", "-a@1", "+a@5"]


async def test_l11_an_empty_list_syncs_handlers_too() -> None:
    informer = informer_of()
    Recorder().add_to(informer)
    async with running(informer):
        await informer.wait_for_sync(1)
        assert informer.has_synced


async def test_s12_wait_for_sync_has_a_deadline_and_names_what_is_missing_and_why() -> None:
    forbidden = informer_of(lists=(Forbidden("no right to list things"),) * 20)
    healthy = informer_of()
    async with running(forbidden, healthy):
        await healthy.wait_for_sync(1)
        began = anyio.current_time()
        with pytest.raises(NotSynced) as failure:
            await forbidden.wait_for_sync(30)
        assert anyio.current_time() - began == 30
    assert failure.value.missing == ("things.example.com (cannot list: Forbidden: no right to list things)",)
    assert str(failure.value).startswith("not synced after 30 s: things.example.com")


async def test_s12_a_lagging_handler_is_named() -> None:
    informer = informer_of(lists=(page(1, thing("a", 1)),))
    Recorder().add_to(informer, name="books")
    pending = informer.store.begin_list()
    pending.add(thing("a", 1))
    replace(informer.store, pending, "1")
    with pytest.raises(NotSynced, match=r"handler books of things.example.com \(2 changes pending\)"):
        await informer.wait_for_sync(0)


async def test_w16_an_informer_recovers_without_a_restart() -> None:
    refused = Forbidden("not yet")
    informer = informer_of(lists=(refused, refused, page(1, thing("a", 1))))
    recorder = Recorder().add_to(informer)
    async with running(informer):
        await informer.wait_for_sync(60)
        assert informer.problem is None
    assert recorder.changes == ["*a@1"]


async def test_a_problem_is_shown_while_it_lasts() -> None:
    informer = informer_of(Refused(Unreachable("connection refused")), [Step.HANG])
    async with running(informer):
        assert str(informer.problem) == "cannot watch: Unreachable: connection refused"
        assert informer.has_synced  # the cached objects remain readable
        await anyio.sleep(5)
        assert informer.problem is None


async def test_w19_a_defect_in_the_watcher_ends_run() -> None:
    informer = informer_of([TypeError("a defect")])
    Recorder().add_to(informer)
    with pytest.RaisesGroup(pytest.RaisesExc(TypeError, match="a defect")):
        await informer.run()


async def test_w19_a_watcher_cancelled_from_within_ends_run() -> None:
    informer = informer_of([asyncio.CancelledError("leaked out of the client")])
    with pytest.RaisesGroup(pytest.RaisesExc(WatcherEnded, match=r"things\.example\.com")):
        await informer.run()


@pytest.mark.parametrize("cancel_natively", [False, True])
async def test_a_cancelled_informer_ends_as_cancelled(cancel_natively: bool) -> None:
    informer = informer_of([Step.HANG])
    Recorder().add_to(informer)
    if cancel_natively:
        task = asyncio.create_task(informer.run())
        await idle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        with anyio.move_on_after(1) as scope:
            await informer.run()
        assert scope.cancelled_caught


async def test_an_informer_runs_once_at_a_time() -> None:
    informer = informer_of()
    async with running(informer):
        with pytest.raises(RuntimeError, match="already running"):
            await informer.run()


async def test_an_informer_can_run_again_after_it_was_stopped() -> None:
    informer = informer_of(lists=(page(1, thing("a", 1)), page(2, thing("a", 1), thing("b", 2))))
    recorder = Recorder().add_to(informer)
    async with running(informer):
        pass
    async with running(informer):
        pass
    assert recorder.changes == ["*a@1", "+b@2"]


async def test_statistics_show_the_parts_and_the_repr_is_one_line() -> None:
    informer = informer_of([added(thing("a", 2, "red")), Step.HANG])
    Recorder().add_to(informer, name="books")
    async with running(informer):
        pass
    statistics = informer.statistics()
    assert statistics.store.objects == 1
    assert (statistics.reflector.lists_total, statistics.reflector.watches_total) == (1, 1)
    assert [registration.name for registration in informer._registrations] == ["books"]
    assert repr(informer) == (
        "<SharedInformer things.example.com handlers=1 "
        "<Store objects=1 unreadable=0 resource_version=2 synced=True>>"
    )


async def test_m2_a_stuck_reflector_is_named_and_one_that_backs_off_or_is_stopped_is_not() -> None:
    stuck, backing_off = (
        informer_of([Step.HANG]),
        informer_of(lists=(TooManyRequests("later", retry_after_seconds=900),)),
    )
    async with running(stuck, backing_off):
        await anyio.sleep(STUCK_SECONDS - 1)
        assert stuck.stuck() is None
        await anyio.sleep(2)
        assert stuck.stuck() == "things.example.com has made no progress for 301 s in Watching(fruitless=0)"
        assert backing_off.stuck() is None
    await anyio.sleep(STUCK_SECONDS)
    assert stuck.stuck() is None


@pytest.mark.parametrize(
    ("selectors", "selects"),
    [(Selectors("a=b"), None), (Selectors(), lambda _: True)],
    ids=["no predicate", "no selectors"],
)
def test_selectors_and_the_selection_predicate_go_together(
    selectors: Selectors, selects: Callable[[Thing], bool] | None
) -> None:
    api = ScriptedApi(lists=[], watches=[])
    with pytest.raises(ValueError, match="go together"):
        SharedInformer(api, THINGS, rng=Random(0), selectors=selectors, selects=selects)
