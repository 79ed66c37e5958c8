"""A freed seat reaches somebody: whoever was woken for it and does not take it leaves it to the next."""

from __future__ import annotations

from random import Random

import pytest
from anyio.lowlevel import checkpoint

from controller.api.names import FINALIZER
from controller.api.workload import Workload
from controller.observe.gauges import Gauges
from controller.queue.triggers import QueueTriggers
from controller.reconcile.reconciler import Reconciler
from informers.api import ObjectKey
from informers.backoff import RetryLimiter
from informers.queue.workqueue import WorkQueue
from tests.controller.build import (
    NAMESPACE,
    Parts,
    context,
    ledger,
    metadata,
    pod,
    seat,
    workload,
)

pytestmark = pytest.mark.anyio


class Woken:
    """The wake-ups of some parts, and whom they have put into the queue."""

    def __init__(self, parts: Parts) -> None:
        self._queue: WorkQueue[ObjectKey] = WorkQueue("test", RetryLimiter.with_defaults(Random(0)))
        self.triggers = QueueTriggers(
            parts.caches,
            self._queue,
            scheduling_queue=parts.scheduling_queue,
            activation_planner=parts.activation_planner,
            requests=parts.requests,
            gauges=Gauges(seat_limit=2),
            namespace=NAMESPACE,
        )
        self.triggers.subscribe(parts.fleet_updater)

    async def names(self) -> list[str]:
        """Who is in the queue at the end of this turn of the loop; it is empty afterwards."""
        await checkpoint()
        await checkpoint()
        names = []
        while len(self._queue):
            key = await self._queue.get()
            self._queue.done(key)
            names.append(key.name)
        return names


async def seat_freed_for_two() -> tuple[Parts, Woken]:
    """Two workers wait for a full device, and the older one was woken for the seat that became free."""
    parts = Parts(max_seats_per_claim=2)
    parts.host()
    parts.shared("claim-a", seat("stays"), seat("leaves"))
    activated = Woken(parts)
    parts.waiting("old", 1)
    parts.waiting("young", 2)
    assert parts.activation_planner.plan() == []
    await activated.names()
    parts.put(ledger("claim-a", seat("stays")))
    assert await activated.names() == ["leaves", "old"]
    return parts, activated


def cached(parts: Parts, name: str) -> Workload:
    found = parts.caches.workloads.store.get(ObjectKey(NAMESPACE, name))
    assert found is not None
    return found


async def test_the_seat_of_one_that_is_deleted_before_it_looked_goes_to_the_next() -> None:
    parts, activated = await seat_freed_for_two()
    parts.caches.workloads.store.apply_delete(cached(parts, "old"))
    assert await activated.names() == ["young"]


async def test_the_seat_of_one_that_ended_before_it_looked_goes_to_the_next() -> None:
    parts, activated = await seat_freed_for_two()
    parts.put(workload("old", status={"phase": "Failed"}))
    assert await activated.names() == ["old", "young"]


async def test_the_seat_of_one_whose_own_claim_got_a_device_goes_to_the_next() -> None:
    parts, activated = await seat_freed_for_two()
    parts.put(pod("old", claim_name="claim-old", nodeName="node"))
    assert await activated.names() == ["old", "young"]


async def test_one_that_has_looked_is_out_of_the_way() -> None:
    parts, activated = await seat_freed_for_two()
    assert parts.scheduling_queue.start(ObjectKey(NAMESPACE, "old"))
    parts.caches.workloads.store.apply_delete(cached(parts, "old"))
    assert await activated.names() == []


async def test_one_that_was_seated_already_when_it_was_woken_leaves_the_seat_to_the_next() -> None:
    """It was taking a seat when another became free, and was taken for one that still needs it."""
    parts = Parts()
    parts.host()
    parts.shared("claim-a", seat("a"))
    status = {"phase": "Placing", "claimName": "claim-a", "assignmentID": "assignment-a"}
    seated = workload("a", meta={"finalizers": [FINALIZER]}, status=status)
    stamps = [{"name": "OPEN_RL_ASSIGNMENT_ID", "value": "assignment-a"}]
    unbound = pod("a", claim_name="claim-a", containers=[{"name": "worker", "env": stamps}])
    parts.put(seated, unbound)
    key = ObjectKey.of(seated)
    parts.scheduling_queue.add(key, seated.creation_order, "lane")
    skipped: list[str] = []
    reconcile = Reconciler(context(parts, activate_next=lambda w: skipped.append(w.name)))

    await reconcile(key)
    assert skipped == [], "nobody had woken it"

    parts.scheduling_queue.mark_activated([key])
    await reconcile(key)
    assert skipped == ["a"]


async def test_a_new_workload_of_the_same_name_does_not_inherit_the_seat() -> None:
    parts, activated = await seat_freed_for_two()
    parts.put(
        workload("old", meta=metadata("old", uid="uid-of-another", creationTimestamp="2027-01-01T00:00:00Z"))
    )
    assert await activated.names() == ["young", "old"]
