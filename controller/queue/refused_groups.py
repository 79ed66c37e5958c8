"""Groups of workers whose Pod, claim or ledger the API server refuses alike (contract §5.10).

One member at a time asks for the whole group, by a dry run and each in turn. When a probe passes, the members
try for themselves, oldest first, until one is refused. The work per event does not grow with the number of
members or groups: each event activates one member.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from controller.api.pods import PODS
from informers.api import ObjectKey

PROBE_DELAY_RANGE_SECONDS = (1.0, 60.0)
PROBE_INTERVAL_SECONDS = 0.1
"""The shortest time between two probes, over all groups."""

Order = tuple[str, str]


class Turn(Enum):
    """What a refused worker does now."""

    WAIT = auto()
    """Another member asks for it."""
    PROBE = auto()
    TRY = auto()


class GroupKey(NamedTuple):
    """What refused workers have in common."""

    kind: str
    worker_class: Hashable
    text: str
    alone: ObjectKey | None = None
    """Set for a worker that is refused while others of its class pass: its own template is at fault."""


@dataclass
class RefusedGroup:
    """Workers that are refused alike."""

    key: GroupKey
    words: str
    """The refusal without figures, for the status of each member."""
    due_seconds: float
    probed_seconds: float
    delay_seconds: float = PROBE_DELAY_RANGE_SECONDS[0]
    turns: dict[ObjectKey, Order] = field(default_factory=dict)
    """The members in the order of their probes."""
    by_age: list[tuple[Order, ObjectKey]] = field(default_factory=list)
    is_open: bool = False
    passed: ObjectKey | None = None
    """The member whose probe opened the group, until a first member was admitted."""
    first: ObjectKey | None = None
    """A member that tries before older ones: it had no dry run, or its probe passed and an older one was
    refused."""

    @property
    def next_to_try(self) -> ObjectKey:
        """The member that tries next."""
        return self.first if self.first in self.turns and self.first else self.by_age[0][1]


class RefusedGroups:
    """All refused workers of one process."""

    def __init__(self, monotonic: Callable[[], float], activate: Callable[[ObjectKey], None]) -> None:
        self._monotonic = monotonic
        self._activate = activate
        self._groups: dict[GroupKey, RefusedGroup] = {}
        """In the order of their last probe."""
        self._by_class: dict[tuple[str, Hashable], dict[GroupKey, None]] = {}
        self._member_of: dict[ObjectKey, RefusedGroup] = {}
        self._trying: dict[ObjectKey, RefusedGroup] = {}
        self._known: set[ObjectKey] = set()
        self._freed_seconds = float("-inf")
        self._next_probe_seconds = float("-inf")

    def __repr__(self) -> str:
        return f"<RefusedGroups groups={len(self._groups)} members={len(self._member_of)}>"

    def group_of(self, worker: ObjectKey) -> RefusedGroup | None:
        """Return the group of a worker that is held back."""
        return self._member_of.get(worker)

    def closed(self, kind: str, worker_class: Hashable) -> RefusedGroup | None:
        """Return the group that a new worker of this class joins."""
        keys = self._by_class.get((kind, worker_class))
        return self._groups[next(iter(keys))] if keys else None

    def holds_pods(self, worker_class: Hashable) -> bool:
        """Return whether Pods of this class are refused, so that its workers take nothing."""
        return self.closed(PODS.kind, worker_class) is not None

    def is_new(self, worker: ObjectKey) -> bool:
        """Return whether this process meets the worker for the first time, as after a restart."""
        is_new = worker not in self._known
        self._known.add(worker)
        return is_new

    def refuse(self, worker: ObjectKey, order: Order, key: GroupKey, words: str) -> RefusedGroup:
        """Add a worker that was just refused, or begin a group with it."""
        tried = self._trying.pop(worker, None)
        if tried is not None and tried.key == key and tried.is_open:
            if tried.passed in tried.turns:
                # The other's probe passed, so only this worker may be at fault.
                tried.first, tried.passed = tried.passed, None
                self._activate(tried.next_to_try)
                return self._add(worker, order, key._replace(alone=worker), words)
            tried.is_open, tried.first = False, None
            self._delay_more(tried)
            if tried.turns:
                self._activate(next(iter(tried.turns)))
            group = self._add(worker, order, key, words)
            group.delay_seconds, group.due_seconds = tried.delay_seconds, tried.due_seconds
            return group
        if tried is not None:
            self._pass_on(tried)
        return self._add(worker, order, key, words)

    def join(self, worker: ObjectKey, order: Order, group: RefusedGroup) -> None:
        """Add a worker that is not asked: others of its class are refused."""
        self._add(worker, order, group.key, group.words)

    def turn(self, worker: ObjectKey, group: RefusedGroup) -> tuple[Turn, float]:
        """Return what a member does, and for its next probe the seconds until then."""
        if group.is_open:
            return (Turn.TRY if group.next_to_try == worker else Turn.WAIT), 0.0
        if next(iter(group.turns)) != worker:
            return Turn.WAIT, 0.0
        now_seconds = self._monotonic()
        wait_seconds = max(self._due(group), self._next_probe_seconds) - now_seconds
        if wait_seconds > 0:
            return Turn.PROBE, wait_seconds
        self._next_probe_seconds = now_seconds + PROBE_INTERVAL_SECONDS
        return Turn.PROBE, 0.0

    def probe_failed(self, worker: ObjectKey, group: RefusedGroup) -> None:
        """Note a refused probe: the next member is next, after twice the time."""
        if worker in group.turns:
            group.turns[worker] = group.turns.pop(worker)
        if group.key in self._groups:
            self._delay_more(group)
            self._activate(next(iter(group.turns)))
        self._hasten_next()

    def probe_passed(self, worker: ObjectKey, group: RefusedGroup) -> None:
        """Open the group: its members try for themselves, oldest first."""
        if group.key not in self._groups:
            return
        group.is_open, group.passed = True, worker
        self._activate(group.next_to_try)
        self._hasten_next()

    def probe_unanswered(self, worker: ObjectKey, group: RefusedGroup) -> None:
        """Open the group for this member's real attempt, where no dry run says anything about the others."""
        if group.key not in self._groups:
            return
        group.is_open, group.first, group.passed = True, worker, None
        self._activate(worker)
        self._hasten_next()

    def begin_try(self, worker: ObjectKey) -> None:
        """Note that a member tries for itself, in its turn."""
        group = self._member_of[worker]
        if group.passed == worker:
            group.passed = None
        self._trying[worker] = group
        self._remove(worker)

    def end_try(self, worker: ObjectKey) -> None:
        """Note that a try was not refused: the next member may try."""
        group = self._trying.pop(worker, None)
        if group is not None:
            group.passed = group.first = None
            self._pass_on(group)

    def forget(self, worker: ObjectKey) -> None:
        """Drop a worker that has ended or is being deleted; the next member takes its turn."""
        self._known.discard(worker)
        group = self._member_of.get(worker)
        if group is None:
            return
        self._remove(worker)
        if group.turns:
            self._activate(group.next_to_try if group.is_open else next(iter(group.turns)))

    def freed(self) -> None:
        """Note that a Pod or claim has ended or gone: every group probes again from one second on."""
        if not self._groups:
            return
        oldest = next(iter(self._groups.values()))
        if oldest.probed_seconds >= self._freed_seconds:
            self._freed_seconds = self._monotonic()
            self._hasten_next()

    def _hasten_next(self) -> None:
        """Activate the group that has not probed since the last event; each one activates the next."""
        oldest = next(iter(self._groups.values()), None)
        if oldest is not None and oldest.probed_seconds < self._freed_seconds and not oldest.is_open:
            self._activate(next(iter(oldest.turns)))

    def _due(self, group: RefusedGroup) -> float:
        if group.probed_seconds < self._freed_seconds:
            return min(group.due_seconds, self._freed_seconds + PROBE_DELAY_RANGE_SECONDS[0])
        return group.due_seconds

    def _delay_more(self, group: RefusedGroup) -> None:
        was_freed = group.probed_seconds < self._freed_seconds
        shortest, longest = PROBE_DELAY_RANGE_SECONDS
        seconds, now_seconds = (
            shortest if was_freed else min(group.delay_seconds * 2, longest),
            self._monotonic(),
        )
        group.delay_seconds, group.probed_seconds = seconds, now_seconds
        group.due_seconds = now_seconds + seconds
        if group.key in self._groups:
            self._groups[group.key] = self._groups.pop(group.key)

    def _pass_on(self, group: RefusedGroup) -> None:
        if group.turns and group.is_open:
            self._activate(group.next_to_try)

    def _add(self, worker: ObjectKey, order: Order, key: GroupKey, words: str) -> RefusedGroup:
        self._remove(worker)
        group = self._groups.get(key)
        if group is None:
            now_seconds, delay_seconds = self._monotonic(), PROBE_DELAY_RANGE_SECONDS[0]
            group = self._groups[key] = RefusedGroup(key, words, now_seconds + delay_seconds, now_seconds)
            if key.alone is None:
                self._by_class.setdefault((key.kind, key.worker_class), {})[key] = None
        group.turns[worker] = order
        insort(group.by_age, (order, worker))
        self._member_of[worker] = group
        return group

    def _remove(self, worker: ObjectKey) -> None:
        group = self._member_of.pop(worker, None)
        if group is None:
            return
        order = group.turns.pop(worker)
        del group.by_age[bisect_left(group.by_age, (order, worker))]
        if not group.turns:
            self._groups.pop(group.key, None)
            class_key = (group.key.kind, group.key.worker_class)
            keys = self._by_class.get(class_key, {})
            keys.pop(group.key, None)
            if not keys:
                self._by_class.pop(class_key, None)
