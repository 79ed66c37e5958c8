"""A freed seat goes to the next waiting worker if the one activated for it does not book it."""

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


class Activations:
    """The queue triggers on some parts, and the Workloads that they have enqueued."""

    def __init__(self, parts: Parts) -> None:
        self._queue: WorkQueue[ObjectKey] = WorkQueue("test", RetryLimiter.with_defaults(Random(0)))
        self.triggers = QueueTriggers(
            parts.caches,
            self._queue,
            scheduling_queue=parts.scheduling_queue,
            activation_planner=parts.activation_planner,
            requests=parts.requests,
            gauges=Gauges(seat_limit=2),
            refused_groups=parts.refused_groups,
            namespace=NAMESPACE,
        )
        self.triggers.subscribe(parts.fleet_updater)

    async def names(self) -> list[str]:
        """Drain the queue at the end of this iteration of the event loop."""
        await checkpoint()
        await checkpoint()
        names = []
        while len(self._queue):
            key = await self._queue.get()
            self._queue.done(key)
            names.append(key.name)
        return names


async def seat_freed_for_two() -> tuple[Parts, Activations]:
    """Two workers wait for a full device; a seat is freed and the older one is activated for it."""
    parts = Parts(max_seats_per_claim=2)
    parts.host()
    parts.shared("claim-a", seat("stays"), seat("leaves"))
    activations = Activations(parts)
    parts.waiting("old", 1)
    parts.waiting("young", 2)
    assert parts.activation_planner.plan() == []
    await activations.names()
    parts.put(ledger("claim-a", seat("stays")))
    assert await activations.names() == ["leaves", "old"]
    return parts, activations


def cached(parts: Parts, name: str) -> Workload:
    found = parts.caches.workloads.store.get(ObjectKey(NAMESPACE, name))
    assert found is not None
    return found


async def test_the_seat_goes_to_the_next_if_the_worker_is_deleted_before_its_reconcile() -> None:
    parts, activations = await seat_freed_for_two()
    parts.caches.workloads.store.apply_delete(cached(parts, "old"))
    assert await activations.names() == ["young"]


async def test_the_seat_goes_to_the_next_if_the_worker_ended_before_its_reconcile() -> None:
    parts, activations = await seat_freed_for_two()
    parts.put(workload("old", status={"phase": "Failed"}))
    assert await activations.names() == ["old", "young"]


async def test_the_seat_goes_to_the_next_if_the_workers_own_claim_got_a_device() -> None:
    parts, activations = await seat_freed_for_two()
    parts.put(pod("old", claim_name="claim-old", nodeName="node"))
    assert await activations.names() == ["old", "young"]


async def test_a_reconciled_worker_passes_no_seat_on_when_it_is_deleted() -> None:
    parts, activations = await seat_freed_for_two()
    assert parts.scheduling_queue.start(ObjectKey(NAMESPACE, "old"))
    parts.caches.workloads.store.apply_delete(cached(parts, "old"))
    assert await activations.names() == []


async def test_the_seat_goes_to_the_next_if_the_activated_worker_already_had_one() -> None:
    """It was booking a seat when another seat was freed, and still counted as waiting."""
    parts = Parts()
    parts.host()
    parts.shared("claim-a", seat("a"))
    status = {"phase": "Placing", "claimName": "claim-a", "assignmentID": "assignment-a"}
    seated = workload("a", meta={"finalizers": [FINALIZER]}, status=status)
    env = [{"name": "OPEN_RL_ASSIGNMENT_ID", "value": "assignment-a"}]
    unbound = pod("a", claim_name="claim-a", containers=[{"name": "worker", "env": env}])
    parts.put(seated, unbound)
    key = ObjectKey.of(seated)
    parts.scheduling_queue.add(key, seated.creation_order, "class")
    skipped: list[str] = []
    reconcile = Reconciler(context(parts, activate_next=lambda w: skipped.append(w.name)))

    await reconcile(key)
    assert skipped == [], "it was not activated"

    parts.scheduling_queue.mark_activated([key])
    await reconcile(key)
    assert skipped == ["a"]


async def test_a_new_workload_of_the_same_name_does_not_inherit_the_seat() -> None:
    parts, activations = await seat_freed_for_two()
    parts.put(
        workload("old", meta=metadata("old", uid="uid-of-another", creationTimestamp="2027-01-01T00:00:00Z"))
    )
    assert await activations.names() == ["young", "old"]
