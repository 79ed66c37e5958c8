"""The shared informer: handlers, syncing, failing. Ids are those of the checklist."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import anyio
import anyio.lowlevel
import pytest

from informers.dispatch import BACKLOG_WARNING
from informers.errors import Forbidden, Gone, Unreachable
from informers.informer import NotSynced, SharedInformer, WatcherEnded
from informers.store import ObjectKey
from tests.informers.scripted_api import (
    THINGS,
    ListReply,
    Recorder,
    Refused,
    ScriptedApi,
    Step,
    Thing,
    WatchReply,
    added,
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


def informer_of(*watches: WatchReply, lists: tuple[ListReply, ...] = (page(1),)) -> SharedInformer[Thing]:
    api = ScriptedApi(lists=list(lists), watches=list(watches))
    return SharedInformer(
        api,
        THINGS,
        rng=Random(0),
        indexes={"colour": lambda found: found.colours},
    )


@asynccontextmanager
async def running(*informers: SharedInformer[Thing]) -> AsyncIterator[None]:
    """The informers run inside; they have nothing left to do at the start and at the end of it."""
    async with anyio.create_task_group() as tasks:
        for informer in informers:
            tasks.start_soon(informer.run)
        await quiet()
        yield
        await quiet()
        tasks.cancel_scope.cancel()


async def quiet() -> None:
    """Virtual time passes only when nothing else can run."""
    await anyio.sleep(0.01)


@dataclass
class Failing(Recorder):
    """Raises on each third change."""

    calls: int = 0

    def on_add(self, obj: Thing, initial: bool) -> None:
        self.calls += 1
        if self.calls % 3 == 0:
            raise LookupError(f"no place for {obj}")
        super().on_add(obj, initial)


@pytest.mark.parametrize("inline", [False, True])
async def test_handlers_are_told_of_the_list_then_of_each_change(inline: bool) -> None:
    informer = informer_of(
        [added(thing("b", 2)), modified(thing("a", 3)), deleted(thing("b", 4)), Step.HANG],
        lists=(page(1, thing("a", 1)),),
    )
    first, second = Recorder(), Recorder()
    informer.add_handler(first, inline=inline)
    informer.add_handler(second, inline=inline)
    async with running(informer):
        await informer.wait_for_sync()
    assert first.told == second.told == ["*a@1", "+b@2", "~a@3", "-b@4"]


@pytest.mark.parametrize("inline", [False, True])
async def test_r6_our_own_write_is_told_exactly_once_whoever_is_first(inline: bool) -> None:
    written, gone = thing("a", 3), thing("b", 2)
    informer = informer_of(
        [5.0, added(gone), modified(written), deleted(thing("b", 4)), Step.HANG],
        lists=(page(1, thing("a", 1)),),
    )
    recorder = Recorder()
    informer.add_handler(recorder, inline=inline)
    async with running(informer):
        informer.store.apply_write(gone)
        informer.store.apply_write(written)
        informer.store.apply_delete(gone)
        await quiet()
        assert recorder.told == ["*a@1", "+b@2", "~a@3", "-b@2"]
        await anyio.sleep(10)
        informer.store.apply_write(written)
    assert recorder.told == ["*a@1", "+b@2", "~a@3", "-b@2"]


async def test_an_inline_handler_never_lags_the_store() -> None:
    informer = informer_of()
    by_name: dict[str, Thing] = {}

    class Index:
        def on_add(self, obj: Thing, _initial: bool) -> None:
            assert informer.store.get(ObjectKey.of(obj)) is obj
            assert obj in informer.store.by_index("colour", "red")
            by_name[obj.metadata.name] = obj

        def on_update(self, _old: Thing, new: Thing) -> None:
            by_name[new.metadata.name] = new

        def on_delete(self, obj: Thing) -> None:
            del by_name[obj.metadata.name]

    informer.add_handler(Index(), inline=True)
    async with running(informer):
        informer.store.apply_write(thing("a", 2, "red"))
        assert by_name == {"a": thing("a", 2, "red")}
        informer.store.apply_delete(thing("a", 2, "red"))
        assert by_name == {}
    assert informer.statistics().handlers[0].failures_total == 0


async def test_s5_a_backlog_delays_neither_the_store_nor_the_reader_nor_others_and_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    burst = [added(thing(f"thing-{version}", version)) for version in range(2, 102)]
    informer = informer_of([1.0, *burst, Step.HANG])
    slow, inline = Recorder(), Recorder()
    registration = informer.add_handler(slow, name="slow")
    informer.add_handler(inline, inline=True)
    async with running(informer):
        for version in range(5000, 5000 + 2 * BACKLOG_WARNING):
            informer.store.apply_write(thing(f"thing-{version}", version))
        assert registration.backlog == 2 * BACKLOG_WARNING
        assert slow.told == []
        assert len(inline.told) == len(informer.store) == 2 * BACKLOG_WARNING
        await anyio.sleep(2)
        assert registration.backlog == 0
    assert len(slow.told) == len(inline.told) == 2 * BACKLOG_WARNING + 100
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [f"handler slow of things.example.com is behind by {BACKLOG_WARNING + 1} changes"]


async def test_s5_other_tasks_run_between_the_changes_of_a_backlog() -> None:
    informer = informer_of()
    told_at: list[int] = []
    turn = 0

    class Counts(Recorder):
        def on_add(self, _obj: Thing, _initial: bool) -> None:
            told_at.append(turn)

    informer.add_handler(Counts())
    async with running(informer):
        for version in range(2, 102):
            informer.store.apply_write(thing(f"thing-{version}", version))
        for turn in range(150):  # noqa: B007 - read by the handler
            await anyio.lowlevel.checkpoint()
    assert len(set(told_at)) == 100


async def test_s5_a_first_list_is_no_backlog_to_warn_of(caplog: pytest.LogCaptureFixture) -> None:
    things = [thing(f"thing-{number}", number) for number in range(1, 3000)]
    informer = informer_of(lists=(page(5000, *things),))
    informer.add_handler(Recorder())
    async with running(informer):
        await informer.wait_for_sync()
    assert caplog.records == []


@pytest.mark.parametrize("inline", [False, True])
async def test_s6_a_handler_that_raises_is_logged_and_counted_and_gets_the_next_change(
    inline: bool, caplog: pytest.LogCaptureFixture
) -> None:
    informer = informer_of([added(thing(f"thing-{version}", version)) for version in range(2, 8)])
    failing, well = Failing(), Recorder()
    registration = informer.add_handler(failing, name="failing", inline=inline)
    informer.add_handler(well, inline=inline)
    async with running(informer):
        pass
    assert failing.told == ["+thing-2@2", "+thing-3@3", "+thing-5@5", "+thing-6@6"]
    assert len(well.told) == 6
    statistics = registration.statistics()
    assert (statistics.delivered_total, statistics.failures_total, statistics.backlog) == (6, 2, 0)
    assert "handler failing of things.example.com failed on added space/thing-4 (version 4)" in caplog.text
    assert "LookupError: no place for thing-4@4" in caplog.text


@pytest.mark.parametrize("inline", [False, True])
async def test_s7_a_late_handler_is_told_of_what_is_there_and_syncs_by_itself(inline: bool) -> None:
    informer = informer_of([5.0, added(thing("b", 2)), Step.HANG], lists=(page(1, thing("a", 1)),))
    async with running(informer):
        await informer.wait_for_sync()
        late = Recorder()
        registration = informer.add_handler(late, inline=inline)
        assert registration.has_synced is inline
        await informer.wait_for_sync()
        assert registration.has_synced
        assert late.told == ["*a@1"]
        await anyio.sleep(10)
    assert late.told == ["*a@1", "+b@2"]


async def test_s7_a_handler_syncs_only_when_it_has_been_given_the_first_list() -> None:
    informer = informer_of(lists=(page(1, thing("a", 1)),))
    seen: list[bool] = []

    class Looks(Recorder):
        def on_add(self, obj: Thing, initial: bool) -> None:
            super().on_add(obj, initial)
            seen.append(registration.has_synced)

    registration = informer.add_handler(Looks())
    async with running(informer):
        assert registration.has_synced
    assert seen == [False]


async def test_a_handler_cannot_be_added_in_the_middle_of_the_news(caplog: pytest.LogCaptureFixture) -> None:
    informer = informer_of()

    class AddsAnother(Recorder):
        def on_add(self, _obj: Thing, _initial: bool) -> None:
            informer.add_handler(Recorder())

    informer.add_handler(AddsAnother(), inline=True)
    async with running(informer):
        informer.store.apply_write(thing("a", 2))
    assert "a handler cannot be added by an inline handler" in caplog.text


@pytest.mark.parametrize("inline", [False, True])
async def test_l7_a_relist_tells_of_what_was_deleted_meanwhile(inline: bool) -> None:
    informer = informer_of(
        [added(thing("b", 2)), Gone("too old")], lists=(page(1, thing("a", 1)), page(9, thing("c", 8)))
    )
    recorder = Recorder()
    informer.add_handler(recorder, inline=inline)
    async with running(informer):
        await anyio.sleep(5)
    assert recorder.told == ["*a@1", "+b@2", "-a@1", "-b@2", "+c@8"]


async def test_l8_what_is_only_in_the_queue_counts_as_known_to_a_relist() -> None:
    informer = informer_of()
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer):
        informer.store.apply_event(added(thing("a", 2)))
        informer.store.replace(informer.store.begin_replacement(), "3")
        assert recorder.told == []
    assert recorder.told == ["+a@2", "-a@2"]


async def test_l9_a_relist_of_the_same_versions_tells_nothing() -> None:
    things = (thing("a", 1), thing("b", 1))
    informer = informer_of([Gone("too old")], lists=(page(1, *things), page(9, *things)))
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer):
        await anyio.sleep(5)
        assert informer.store.resource_version == "9"
    assert recorder.told == ["*a@1", "*b@1"]


async def test_l10_an_object_recreated_while_disconnected_is_a_delete_and_an_add() -> None:
    informer = informer_of(
        [Gone("too old")], lists=(page(1, thing("a", 1, uid="old")), page(9, thing("a", 5, uid="new")))
    )
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer):
        await anyio.sleep(5)
    assert recorder.told == ["*a@1", "-a@1", "+a@5"]


async def test_l11_an_empty_list_syncs_handlers_too() -> None:
    informer = informer_of()
    informer.add_handler(Recorder())
    async with running(informer):
        await informer.wait_for_sync(1)
        assert informer.has_synced


async def test_s12_waiting_for_sync_has_a_deadline_and_names_what_is_missing_and_why() -> None:
    forbidden = informer_of(lists=(Forbidden("no right to list things"),) * 20)
    well = informer_of()
    async with running(forbidden, well):
        await well.wait_for_sync(1)
        began = anyio.current_time()
        with pytest.raises(NotSynced) as failure:
            await forbidden.wait_for_sync(30)
        assert anyio.current_time() - began == 30
    assert failure.value.missing == ("things.example.com (cannot list: Forbidden: no right to list things)",)
    assert str(failure.value).startswith("not synced after 30 s: things.example.com")


async def test_s12_a_handler_that_has_not_caught_up_is_named() -> None:
    informer = informer_of(lists=(page(1, thing("a", 1)),))
    informer.add_handler(Recorder(), name="books")
    listed = informer.store.begin_replacement()
    listed.add(thing("a", 1))
    informer.store.replace(listed, "1")
    with pytest.raises(NotSynced, match=r"handler books of things.example.com \(2 changes to go\)"):
        await informer.wait_for_sync(0)


async def test_w16_an_informer_recovers_without_a_restart() -> None:
    refused = Forbidden("not yet")
    informer = informer_of(lists=(refused, refused, page(1, thing("a", 1))))
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer):
        await informer.wait_for_sync(60)
        assert informer.problem is None
    assert recorder.told == ["*a@1"]


async def test_a_problem_is_shown_while_it_lasts() -> None:
    informer = informer_of(Refused(Unreachable("connection refused")), [Step.HANG])
    async with running(informer):
        assert str(informer.problem) == "cannot watch: Unreachable: connection refused"
        assert informer.has_synced  # what is there may be read on
        await anyio.sleep(5)
        assert informer.problem is None


async def test_w19_a_defect_in_the_watcher_ends_run() -> None:
    informer = informer_of([TypeError("a defect")])
    informer.add_handler(Recorder())
    with pytest.RaisesGroup(pytest.RaisesExc(TypeError, match="a defect")):
        await informer.run()


async def test_w19_a_watcher_cancelled_from_within_ends_run() -> None:
    informer = informer_of([asyncio.CancelledError("leaked out of the client")])
    with pytest.RaisesGroup(pytest.RaisesExc(WatcherEnded, match=r"things\.example\.com")):
        await informer.run()


@pytest.mark.parametrize("cancel_natively", [False, True])
async def test_an_informer_that_is_cancelled_ends_as_cancelled(cancel_natively: bool) -> None:
    informer = informer_of([Step.HANG])
    informer.add_handler(Recorder())
    if cancel_natively:
        task = asyncio.create_task(informer.run())
        await quiet()
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
        with pytest.raises(RuntimeError, match="running already"):
            await informer.run()


async def test_an_informer_can_run_again_after_it_was_stopped() -> None:
    informer = informer_of(lists=(page(1, thing("a", 1)), page(2, thing("a", 1), thing("b", 2))))
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer):
        pass
    async with running(informer):
        pass
    assert recorder.told == ["*a@1", "+b@2"]


async def test_statistics_show_the_parts_and_the_repr_is_one_line() -> None:
    informer = informer_of([added(thing("a", 2, "red")), Step.HANG])
    informer.add_handler(Recorder(), name="books")
    async with running(informer):
        pass
    statistics = informer.statistics()
    assert statistics.store.objects == 1
    assert (statistics.reflector.lists_total, statistics.reflector.watches_total) == (1, 1)
    assert [handler.name for handler in statistics.handlers] == ["books"]
    assert repr(informer) == (
        "<SharedInformer things.example.com handlers=1 "
        "<Store objects=1 unreadable=0 resource_version=2 synced=True>>"
    )
