"""What the watches of the harness showed, and when: who is in which phase, who sits where. Pure.

Times are the harness's own monotonic seconds, taken as an event arrives: the same clock for every
contender, and later than the server's write by what a watch takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

RUNNING = "Running"
DELETED = "DELETED"


@dataclass(frozen=True)
class WorkerSeen:
    """A Workload at one moment."""

    name: str
    phase: str
    node: str
    refused: bool
    """Whether it waits with a claim of its own whose Pod kube-scheduler refused."""


@dataclass(frozen=True)
class SeatChange:
    """A ledger that lost or gained seats."""

    seconds: float
    ledger: str
    gained: frozenset[str]
    lost: frozenset[str]


@dataclass
class Timeline:
    """Fed with events in the order of their arrival; the sets always show the present."""

    present: set[str] = field(default_factory=set)
    """Workloads that exist."""
    running: dict[str, str] = field(default_factory=dict)
    """The node of each Workload that runs now."""
    refused: set[str] = field(default_factory=set)
    """Workloads that wait now with their own claim refused."""
    running_since: dict[str, float] = field(default_factory=dict)
    """When each Workload was last seen to begin running (or to run on another node)."""
    booked_at: dict[str, float] = field(default_factory=dict)
    """When each worker was first seen in a ledger."""
    seats: dict[str, frozenset[str]] = field(default_factory=dict)
    """The workers in each ledger now."""
    changes: list[SeatChange] = field(default_factory=list)
    most_seats: int = 0
    """The most seats that any ledger ever showed."""

    def see_worker(self, event: str, worker: WorkerSeen, seconds: float) -> None:
        """Take an event of the watch of Workloads."""
        name = worker.name
        if event == DELETED:
            self.present.discard(name)
            self.refused.discard(name)
            self.running.pop(name, None)
            return
        self.present.add(name)
        if worker.phase != RUNNING:
            self.running.pop(name, None)
        elif self.running.get(name) != worker.node:
            self.running[name] = worker.node
            self.running_since[name] = seconds
        if worker.refused:
            self.refused.add(name)
        else:
            self.refused.discard(name)

    def see_ledger(self, event: str, ledger: str, workers: Iterable[str], seconds: float) -> None:
        """Take an event of the watch of ledgers."""
        now = frozenset() if event == DELETED else frozenset(workers)
        before = self.seats.pop(ledger, frozenset())
        if event != DELETED:
            self.seats[ledger] = now
        self.most_seats = max(self.most_seats, len(now))
        for name in now - before:
            self.booked_at.setdefault(name, seconds)
        if now != before:
            self.changes.append(SeatChange(seconds, ledger, now - before, before - now))

    def ledgers_with(self, count: int) -> list[str]:
        """The ledgers that hold exactly so many seats, by name."""
        return sorted(ledger for ledger, workers in self.seats.items() if len(workers) == count)

    def by_node(self) -> dict[str, list[str]]:
        """The running workers of each node, both by name."""
        nodes: dict[str, list[str]] = defaultdict(list)
        for name, node in sorted(self.running.items()):
            nodes[node].append(name)
        return dict(sorted(nodes.items()))


@dataclass(frozen=True)
class HandOff:
    """A seat that went from one worker to the next; times as in `Timeline`."""

    freed_seconds: float
    booked_seconds: float
    successor: str


def find_hand_off(changes: Iterable[SeatChange], ledger: str, predecessor: str) -> HandOff | None:
    """The first gain of a ledger after it lost the predecessor's seat; None while there is none.

    A ledger that changes hands in one write was freed and booked at the same time.
    """
    freed: float | None = None
    for change in changes:
        if change.ledger != ledger:
            continue
        if predecessor in change.lost:
            freed = change.seconds
        if freed is not None and change.gained:
            return HandOff(freed, change.seconds, min(change.gained))
    return None
