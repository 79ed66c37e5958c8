"""The shared informer and its handlers. Test names contain checklist IDs."""

import logging
from dataclasses import dataclass

import anyio
import anyio.lowlevel
import pytest

from informers.api import ObjectKey
from informers.cache.dispatch import BACKLOG_WARNING
from tests.informers.running import idle, informer_of, running
from tests.informers.scripted_api import (
    Recorder,
    Step,
    Thing,
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


@dataclass
class Failing(Recorder):
    """Raises on every third change."""

    calls: int = 0

    def change(self, old: Thing | None, new: Thing | None) -> None:
        self.calls += 1
        if self.calls % 3 == 0:
            raise LookupError(f"cannot store {new}")
        super().change(old, new)


@pytest.mark.parametrize("inline", [False, True])
async def test_handlers_receive_the_list_and_then_each_change(inline: bool) -> None:
    informer = informer_of(
        [added(thing("b", 2)), modified(thing("a", 3)), deleted(thing("b", 4)), Step.HANG],
        lists=(page(1, thing("a", 1)),),
    )
    first, second = (Recorder().add_to(informer, inline=inline) for _ in range(2))
    async with running(informer):
        await informer.wait_for_sync()
    assert first.changes == second.changes == ["*a@1", "+b@2", "~a@3", "-b@4"]


@pytest.mark.parametrize("inline", [False, True])
async def test_r6_an_own_write_is_reported_exactly_once_in_any_order(inline: bool) -> None:
    written, deleted_thing = thing("a", 3), thing("b", 2)
    informer = informer_of(
        [5.0, added(deleted_thing), modified(written), deleted(thing("b", 4)), Step.HANG],
        lists=(page(1, thing("a", 1)),),
    )
    recorder = Recorder().add_to(informer, inline=inline)
    async with running(informer):
        informer.store.apply_write(deleted_thing)
        informer.store.apply_write(written)
        informer.store.apply_delete(deleted_thing)
        await idle()
        assert recorder.changes == ["*a@1", "+b@2", "~a@3", "-b@2"]
        await anyio.sleep(10)
        informer.store.apply_write(written)
    assert recorder.changes == ["*a@1", "+b@2", "~a@3", "-b@2"]


async def test_an_inline_handler_never_lags_the_store() -> None:
    informer = informer_of()
    by_name: dict[str, Thing] = {}

    def index(old: Thing | None, new: Thing | None) -> None:
        if new is None:
            assert old is not None
            del by_name[old.metadata.name]
            return
        if old is None:
            assert informer.store.get(ObjectKey.of(new)) is new
            assert new in informer.store.by_index("colour", "red")
        by_name[new.metadata.name] = new

    informer.on_change(index, inline=True)
    async with running(informer):
        informer.store.apply_write(thing("a", 2, "red"))
        assert by_name == {"a": thing("a", 2, "red")}
        informer.store.apply_delete(thing("a", 2, "red"))
        assert by_name == {}
    assert informer.statistics().handler_failures_total == 0


async def test_s5_a_backlog_delays_neither_store_nor_reflector_nor_other_handlers_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    burst = [added(thing(f"thing-{version}", version)) for version in range(2, 102)]
    informer = informer_of([1.0, *burst, Step.HANG])
    slow = Recorder().add_to(informer, name="slow")
    inline = Recorder().add_to(informer, inline=True)
    registration = slow.registration
    assert registration is not None
    async with running(informer):
        for version in range(5000, 5000 + 2 * BACKLOG_WARNING):
            informer.store.apply_write(thing(f"thing-{version}", version))
        assert registration.backlog == 2 * BACKLOG_WARNING
        assert slow.changes == []
        assert len(inline.changes) == len(informer.store) == 2 * BACKLOG_WARNING
        await anyio.sleep(2)
        assert registration.backlog == 0
    assert len(slow.changes) == len(inline.changes) == 2 * BACKLOG_WARNING + 100
    (warning,) = [vars(record) for record in caplog.records if record.levelno == logging.WARNING]
    assert warning["message"] == "Handler fell behind"
    assert warning["handler"] == "slow of things.example.com"
    assert warning["backlog"] == BACKLOG_WARNING + 1


async def test_s5_other_tasks_run_between_the_changes_of_a_backlog() -> None:
    informer = informer_of()
    delivered_at: list[int] = []
    turn = 0

    informer.on_change(lambda _old, _new: delivered_at.append(turn))
    async with running(informer):
        for version in range(2, 102):
            informer.store.apply_write(thing(f"thing-{version}", version))
        for turn in range(150):  # noqa: B007 - read by the handler
            await anyio.lowlevel.checkpoint()
    assert len(set(delivered_at)) == 100


async def test_s5_a_first_list_does_not_count_as_a_backlog(caplog: pytest.LogCaptureFixture) -> None:
    things = [thing(f"thing-{number}", number) for number in range(1, 3000)]
    informer = informer_of(lists=(page(5000, *things),))
    Recorder().add_to(informer)
    async with running(informer):
        await informer.wait_for_sync()
    assert caplog.records == []


@pytest.mark.parametrize("inline", [False, True])
async def test_s6_a_failing_handler_is_logged_and_counted_and_receives_the_next_change(
    inline: bool, caplog: pytest.LogCaptureFixture
) -> None:
    informer = informer_of([added(thing(f"thing-{version}", version)) for version in range(2, 8)])
    failing = Failing().add_to(informer, name="failing", inline=inline)
    healthy = Recorder().add_to(informer, inline=inline)
    registration = failing.registration
    assert registration is not None
    async with running(informer):
        pass
    assert failing.changes == ["+thing-2@2", "+thing-3@3", "+thing-5@5", "+thing-6@6"]
    assert len(healthy.changes) == 6
    assert (registration.failures, registration.backlog) == (2, 0)
    logged = vars(caplog.records[0])
    assert logged["message"] == "Handler failed"
    assert logged["handler"] == "failing of things.example.com"
    assert (logged["change"], logged["key"], logged["version"]) == ("added", "space/thing-4", "4")
    assert "LookupError: cannot store thing-4@4" in caplog.text


@pytest.mark.parametrize("inline", [False, True])
async def test_s7_a_late_handler_receives_the_existing_objects_and_syncs_separately(inline: bool) -> None:
    informer = informer_of([5.0, added(thing("b", 2)), Step.HANG], lists=(page(1, thing("a", 1)),))
    async with running(informer):
        await informer.wait_for_sync()
        late = Recorder().add_to(informer, inline=inline)
        assert late.has_synced is inline
        await informer.wait_for_sync()
        assert late.has_synced
        assert late.changes == ["*a@1"]
        await anyio.sleep(10)
    assert late.changes == ["*a@1", "+b@2"]


async def test_s7_a_handler_syncs_only_after_it_received_the_first_list() -> None:
    informer = informer_of(lists=(page(1, thing("a", 1)),))
    seen: list[bool] = []

    registration = informer.on_change(lambda _old, _new: seen.append(registration.has_synced))
    async with running(informer):
        assert registration.has_synced
    assert seen == [False]


async def test_a_handler_cannot_be_added_by_an_inline_handler(caplog: pytest.LogCaptureFixture) -> None:
    informer = informer_of()

    def add_another(_old: Thing | None, _new: Thing | None) -> None:
        Recorder().add_to(informer)

    informer.on_change(add_another, inline=True)
    async with running(informer):
        informer.store.apply_write(thing("a", 2))
    assert "a handler cannot be added by an inline handler" in caplog.text


@pytest.mark.parametrize("inline", [False, True])
async def test_s7_a_handler_added_while_a_list_is_reported_receives_everything_once(inline: bool) -> None:
    informer = informer_of()
    first = Recorder().add_to(informer, inline=True)
    listed = informer.store.begin_list()
    for number in range(600):
        listed.add(thing(f"thing-{number}", 1))
    slices = informer.store.replace_in_slices(listed, "1")
    next(slices)
    late = Recorder().add_to(informer, inline=inline)
    assert len(first.changes) == 600, "existing handlers first"
    for _ in slices:
        pass
    async with running(informer):
        pass
    assert late.has_synced
    assert sorted(late.changes) == sorted(first.changes)
