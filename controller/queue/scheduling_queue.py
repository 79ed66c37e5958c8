"""The scheduling queue: waiting workers, oldest first.

A worker waits while it has not ended and has no bound Pod, with or without a seat (contract §5). The queue is
updated event by event and always sorted. Workers with equal requests form an equivalence class: when a seat
is freed, checking the head of each class is enough, however many wait.

The queue also tracks activated workers that have not been reconciled since, because younger workers yield to
them, and workers whose wait could not be explained.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from heapq import merge

from informers.api import ObjectKey

CreationOrder = tuple[str, str]
Entry = tuple[CreationOrder, ObjectKey]


class SchedulingQueue:
    """Waiting workers by creation time, then name, grouped into equivalence classes."""

    def __init__(self) -> None:
        # `_workers` holds the class of each worker of `_classes`. No class is empty.
        self._classes: dict[Hashable, list[Entry]] = {}
        self._workers: dict[ObjectKey, tuple[Hashable, CreationOrder]] = {}
        self._activated: dict[ObjectKey, CreationOrder] = {}
        self._unexplained: dict[ObjectKey, CreationOrder] = {}

    def __repr__(self) -> str:
        return (
            f"<SchedulingQueue waiting={len(self)} classes={len(self._classes)} "
            f"activated={len(self._activated)} unexplained={len(self._unexplained)}>"
        )

    def __len__(self) -> int:
        return len(self._workers)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._workers

    def __iter__(self) -> Iterator[ObjectKey]:
        """Iterate over all waiting workers, oldest first."""
        return (key for _, key in merge(*self._classes.values()))

    def by_equivalence_class(self) -> dict[Hashable, Sequence[Entry]]:
        """Return the workers of each class, oldest first. They are views: use them at once."""
        return dict(self._classes)

    def add(self, key: ObjectKey, creation_order: CreationOrder, equivalence_class: Hashable) -> None:
        """Insert a worker in creation order. Adding it again has no effect unless the object differs."""
        if self._workers.get(key) == (equivalence_class, creation_order):
            return
        self.remove(key)
        self._workers[key] = (equivalence_class, creation_order)
        insort(self._classes.setdefault(equivalence_class, []), (creation_order, key))

    def remove(self, key: ObjectKey) -> bool:
        """Remove a worker if it is queued. Return whether it was activated and not reconciled since."""
        was_activated = self.start(key)
        if key in self._workers:
            equivalence_class, creation_order = self._workers.pop(key)
            entries = self._classes[equivalence_class]
            del entries[bisect_left(entries, (creation_order, key))]
            if not entries:
                del self._classes[equivalence_class]
        return was_activated

    def start(self, key: ObjectKey) -> bool:
        """Note that a reconcile of this worker has begun. Return whether the worker had been activated."""
        self._unexplained.pop(key, None)
        return self._activated.pop(key, None) is not None

    def mark_activated(self, keys: Iterable[ObjectKey]) -> None:
        """Note that these workers were activated for a seat. Younger ones yield until they are reconciled."""
        self._activated |= {key: self._workers[key][1] for key in keys if key in self._workers}

    def older_activated(self, key: ObjectKey, creation_order: CreationOrder) -> list[ObjectKey]:
        """Return older workers that were activated and not reconciled since, oldest first."""
        older = [(order, k) for k, order in self._activated.items() if order < creation_order and k != key]
        return [k for _, k in sorted(older)]

    def mark_unexplained(self, key: ObjectKey) -> None:
        """Note that this worker found neither a seat nor a cause of its wait."""
        if key in self._workers:
            self._unexplained[key] = self._workers[key][1]

    def unexplained(self) -> list[ObjectKey]:
        """Return the workers whose last reconcile found no cause of their wait, oldest first."""
        return [key for _, key in sorted((order, key) for key, order in self._unexplained.items())]
