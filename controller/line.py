"""The line of waiting workers, oldest first.

A worker waits while it has not ended and has no bound Pod, with or without a seat (section 5 of the
contract). The line is kept up to date event by event and is always in order, so that waking everybody
sorts nothing. It also remembers who was woken and not looked at since: a younger worker yields to those.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from informers.keys import ObjectKey

Seniority = tuple[str, str]


class WaitingLine:
    """Waiting workers by creation time, then name."""

    def __init__(self) -> None:
        self._order: list[tuple[Seniority, ObjectKey]] = []
        self._seniority: dict[ObjectKey, Seniority] = {}
        self._woken: dict[ObjectKey, None] = {}

    def __repr__(self) -> str:
        return f"<WaitingLine waiting={len(self._order)} woken={len(self._woken)}>"

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._seniority

    def __iter__(self) -> Iterator[ObjectKey]:
        """Everybody who waits, oldest first."""
        return (key for _, key in self._order)

    def join(self, key: ObjectKey, seniority: Seniority) -> None:
        """Put a worker at its place; joining again changes nothing unless it is another, younger object."""
        if self._seniority.get(key) == seniority:
            return
        self.leave(key)
        self._seniority[key] = seniority
        insort(self._order, (seniority, key))

    def leave(self, key: ObjectKey) -> None:
        """Take a worker out, if it is there."""
        seniority = self._seniority.pop(key, None)
        self._woken.pop(key, None)
        if seniority is not None:
            del self._order[bisect_left(self._order, (seniority, key))]

    def wake(self) -> tuple[ObjectKey, ...]:
        """Mark everybody as woken and return them, oldest first."""
        keys = tuple(self)
        self._woken = dict.fromkeys(keys)
        return keys

    def looked_at(self, key: ObjectKey) -> None:
        """A reconcile of this worker has begun, so it decides on today's picture."""
        self._woken.pop(key, None)

    def woken_before(self, key: ObjectKey, seniority: Seniority) -> Iterator[ObjectKey]:
        """Older workers that were woken and not looked at since, oldest first."""
        if not self._woken:
            return
        for other_seniority, other in self._order:
            if other_seniority >= seniority:
                return
            if other in self._woken and other != key:
                yield other

    def statistics(self) -> dict[str, int]:
        """How many wait, and how many of them were woken and not looked at yet."""
        return {"waiting": len(self._order), "woken": len(self._woken)}
