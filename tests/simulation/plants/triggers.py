"""Bugs planted in the queue: which events activate which Workloads, and in which order."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager

from controller.queue import triggers
from controller.queue.scheduling_queue import CreationOrder, SchedulingQueue
from informers.api import ObjectKey
from ledger.state import ClaimLedger
from tests.simulation.plants.plant import replaced

_BACKWARDS = {code: 0x7F - code for code in range(0x80)}
"""Reverses the order of strings."""


def ledger_deletions_ignored() -> AbstractContextManager[None]:
    """A deleted ledger activates no Workload."""

    on_ledger = triggers.QueueTriggers._on_ledger

    def without_deletions(
        self: triggers.QueueTriggers, old: ClaimLedger | None, new: ClaimLedger | None
    ) -> None:
        if new is not None:
            on_ledger(self, old, new)

    return replaced(triggers.QueueTriggers, "_on_ledger", without_deletions)


def youngest_first() -> AbstractContextManager[None]:
    """The scheduling queue is reversed: the youngest worker comes first."""
    join = SchedulingQueue.add

    def reversed_join(
        scheduling_queue: SchedulingQueue,
        key: ObjectKey,
        creation_order: CreationOrder,
        equivalence_class: Hashable,
    ) -> None:
        created, name = creation_order
        join(
            scheduling_queue,
            key,
            (created.translate(_BACKWARDS), name.translate(_BACKWARDS)),
            equivalence_class,
        )

    return replaced(SchedulingQueue, "add", reversed_join)
