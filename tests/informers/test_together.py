"""The parts together, as a controller composes them: watch, queue, workers and election."""

from __future__ import annotations

import logging
from random import Random

import anyio
import pytest

from informers.api import ObjectKey
from informers.cache.informer import SharedInformer
from informers.cache.reflector import IDLE_SECONDS, WATCH_SECONDS_MAX
from informers.errors import Forbidden
from informers.queue.runner import ReconcileRunner, Result
from informers.queue.workqueue import WorkQueue
from tests.informers.leader.lease_server import SETTINGS, Process, hang, lease_server
from tests.informers.queue.queues import make_queue
from tests.informers.scripted_api import (
    THINGS,
    ListReply,
    ScriptedApi,
    Step,
    Thing,
    WatchReply,
    added,
    deleted,
    page,
    thing,
)
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio

KEY = ObjectKey("space", "a")


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


def informer_of(*watches: WatchReply, lists: tuple[ListReply, ...] = (page(1),)) -> SharedInformer[Thing]:
    return SharedInformer(ScriptedApi(list(lists), list(watches)), THINGS, rng=Random(0))


class QueueHandler:
    """Enqueues the key of every changed object, and records the UIDs of deleted ones."""

    def __init__(self, queue: WorkQueue[str]) -> None:
        self.queue = queue
        self.deleted_uids: list[str] = []

    def change(self, old: Thing | None, new: Thing | None) -> None:
        changed = new or old
        assert changed is not None
        if new is None:
            self.deleted_uids.append(changed.metadata.uid)
        self.queue.add(changed.metadata.name)


@pytest.mark.parametrize("seen", ["both events", "the second only", "neither"])
async def test_R9_a_quickly_recreated_object_is_two_objects_and_the_first_is_cleaned_up(
    seen: str,
) -> None:
    old, new = thing("a", 1, uid="first"), thing("a", 4, uid="second")
    last = thing("a", 3, uid="first")
    watches: dict[str, list[WatchReply]] = {
        "both events": [[1.0, deleted(last), added(new), Step.HANG]],
        "the second only": [[1.0, added(new), Step.HANG]],
        "neither": [
            [1.0, Forbidden("disconnected")],
            [1.0, Forbidden("still disconnected")],
            [Forbidden("still disconnected")],
        ],
    }
    informer = informer_of(*watches[seen], lists=(page(1, old), page(5, new)))
    queue = make_queue()
    handler = QueueHandler(queue)
    informer.on_change(handler.change)
    children = {"first"}
    reconciled: list[str] = []

    async def reconcile(name: str) -> Result:
        current = informer.store.get(ObjectKey("space", name))
        assert current is not None
        reconciled.append(current.metadata.uid)
        children.difference_update(handler.deleted_uids)
        children.add(current.metadata.uid)
        return Result()

    runner = ReconcileRunner(queue, reconcile)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(informer.run)
        tasks.start_soon(runner.run)
        await anyio.sleep(120)
        tasks.cancel_scope.cancel()
    assert handler.deleted_uids == ["first"]
    # Two changes of one key may be one run or two.
    assert (reconciled[0], set(reconciled[1:])) == ("first", {"second"})
    assert children == {"second"}


async def test_M2_readiness_follows_the_caches_and_names_what_is_missing() -> None:
    informer = informer_of(lists=(Forbidden("no right to list things"), page(1, thing("a", 1))))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(informer.run)
        await anyio.sleep(1)
        assert informer.missing() == ("things.example.com (cannot list: Forbidden: no right to list things)",)
        await anyio.sleep(30)
        assert informer.missing() == ()
        tasks.cancel_scope.cancel()


async def test_M2_a_reflector_without_events_still_makes_progress() -> None:
    # All waits of a reflector are bounded, and one that ends, ends the process (W19).
    informer = informer_of(*[[Step.SILENCE]] * 50, lists=(page(1),) * 50)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(informer.run)
        watches = 0
        for _ in range(5):
            await anyio.sleep(2 * IDLE_SECONDS)
            now = informer.statistics().reflector.watches_total
            assert now > watches
            watches = now
        tasks.cancel_scope.cancel()
    assert IDLE_SECONDS < WATCH_SECONDS_MAX


async def test_X2_a_lost_lease_gives_running_reconciles_no_grace(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with lease_server() as server:
        queue = make_queue()
        queue.add("a")
        cancelled_at: list[float] = []

        async def reconcile(_: str) -> Result:
            try:
                await anyio.sleep_forever()
            finally:
                cancelled_at.append(anyio.current_time())
            return Result()

        process = Process(server)
        process.work = ReconcileRunner(queue, reconcile).run
        process.start()
        await anyio.sleep(0.5)
        server.take("another")
        await anyio.sleep(SETTINGS.retry_period_seconds + 0.5)
        assert cancelled_at == process.ended
        assert cancelled_at[0] <= SETTINGS.retry_period_seconds + 0.5


async def test_X2_an_orderly_stop_is_bounded_and_keeps_the_lease_until_the_workers_are_done() -> None:
    async with lease_server() as server:
        queue = make_queue()
        queue.add("a")
        finished_at: list[float] = []

        async def reconcile(_: str) -> Result:
            try:
                await anyio.sleep_forever()
            finally:
                finished_at.append(anyio.current_time())
            return Result()

        runner = ReconcileRunner(queue, reconcile)
        process = Process(server)
        process.work = runner.run
        process.start()
        await anyio.sleep(0.5)
        assert not await runner.stop(deadline_seconds=30)
        await process.finished.wait()
        released_at = next(at for at, spec in server.history if not spec.get("holderIdentity"))
        assert finished_at == [pytest.approx(30.5)]
        assert released_at >= finished_at[0]


async def test_E15_a_warm_standby_reconciles_existing_objects_at_once() -> None:
    async with lease_server() as server:
        first = Process(server).start()
        await anyio.sleep(1)
        informer = informer_of(lists=(page(1, thing("a", 1)),))
        queue = make_queue()
        informer.on_change(QueueHandler(queue).change)
        reconciled_at: list[float] = []

        async def reconcile(_: str) -> Result:
            reconciled_at.append(anyio.current_time())
            return Result()

        second = Process(server, "b")
        second.work = ReconcileRunner(queue, reconcile).run
        server.tasks.start_soon(informer.run)
        second.start()
        await anyio.sleep(10)
        assert informer.has_synced
        assert not reconciled_at
        first.client.before = hang
        failed_at = max(at for at, _ in server.history)
        await anyio.sleep(40)
        assert second.elector.leading
        longest = SETTINGS.lease_seconds + 1.2 * SETTINGS.retry_period_seconds
        assert second.started[0] - failed_at <= longest + SETTINGS.retry_period_seconds
        assert reconciled_at[0] - second.started[0] < 1
