"""The line of waiting workers, oldest first.

A worker waits while it has not ended and has no bound Pod, with or without a seat (contract §5).
The line is kept up to date event by event and is always in order; workers that ask for the same
thing stand in a lane of their own, so that one seat that frees costs a look at the head of each lane, however
many wait. It also remembers who was woken and not looked at since (a younger worker yields to those), and who
could not say what is in its way.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

from informers.api import ObjectKey

CreationOrder = tuple[str, str]
Entry = tuple[CreationOrder, ObjectKey]


@dataclass(frozen=True)
class SchedulingQueueStatistics:
    """Sizes of this moment."""

    waiting: int
    lanes: int
    activated: int
    """Woken and not looked at yet."""
    unexplained: int
    """Waiting for something that they could not name."""


class SchedulingQueue:
    """Waiting workers by creation time, then name; in lanes by what they ask for."""

    def __init__(self) -> None:
        # Every worker of a lane is in `_places` with that lane's key; no lane is empty.
        self._lanes: dict[Hashable, list[Entry]] = {}
        self._places: dict[ObjectKey, tuple[Hashable, CreationOrder]] = {}
        self._activated: dict[ObjectKey, CreationOrder] = {}
        self._unexplained: dict[ObjectKey, CreationOrder] = {}

    def __repr__(self) -> str:
        return f"<WaitingLine waiting={len(self)} lanes={len(self._lanes)} woken={len(self._activated)}>"

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[ObjectKey]:
        """Everybody who waits, oldest first."""
        return (key for _, key in merge(*self._lanes.values()))

    def by_equivalence_class(self) -> dict[Hashable, Sequence[Entry]]:
        """Those who wait in each lane, oldest first, as (seniority, key); not a copy: use it at once."""
        return dict(self._lanes)

    def add(self, key: ObjectKey, creation_order: CreationOrder, equivalence_class: Hashable) -> None:
        """Put a worker at its place; joining again changes nothing unless it is another object."""
        if self._places.get(key) == (equivalence_class, creation_order):
            return
        self.remove(key)
        self._places[key] = (equivalence_class, creation_order)
        insort(self._lanes.setdefault(equivalence_class, []), (creation_order, key))

    def remove(self, key: ObjectKey) -> bool:
        """Take a worker out, if it is there; returns whether it was woken and not looked at since."""
        was_activated = self._activated.pop(key, None) is not None
        self._unexplained.pop(key, None)
        place = self._places.pop(key, None)
        if place is None:
            return was_activated
        equivalence_class, creation_order = place
        entries = self._lanes[equivalence_class]
        del entries[bisect_left(entries, (creation_order, key))]
        if not entries:
            del self._lanes[equivalence_class]
        return was_activated

    def mark_activated(self, keys: Iterable[ObjectKey]) -> None:
        """These were woken to take something; until they are looked at, younger ones yield to them."""
        for key in keys:
            place = self._places.get(key)
            if place is not None:
                self._activated[key] = place[1]

    def start(self, key: ObjectKey) -> bool:
        """A reconcile of this worker has begun; returns whether it had been woken to take something."""
        self._unexplained.pop(key, None)
        return self._activated.pop(key, None) is not None

    def older_activated(self, key: ObjectKey, creation_order: CreationOrder) -> list[ObjectKey]:
        """Older workers that were woken and not looked at since, oldest first."""
        older = [(s, k) for k, s in self._activated.items() if s < creation_order and k != key]
        return [k for _, k in sorted(older)]

    def mark_unexplained(self, key: ObjectKey) -> None:
        """This worker found nothing, and nothing to name that is in its way."""
        place = self._places.get(key)
        if place is not None:
            self._unexplained[key] = place[1]

    def unexplained(self) -> list[ObjectKey]:
        """Those who could not say what is in their way when they were looked at last, oldest first."""
        return [key for _, key in sorted((s, k) for k, s in self._unexplained.items())]

    def statistics(self) -> SchedulingQueueStatistics:
        """Sizes of this moment."""
        return SchedulingQueueStatistics(
            waiting=len(self),
            lanes=len(self._lanes),
            activated=len(self._activated),
            unexplained=len(self._unexplained),
        )
