"""The history of a measurement as the watches of the benchmark show it: phases of workers and seats in
ledgers. Pure.

Times are monotonic seconds of the benchmark process, taken when an event arrives. All contenders have the
same clock. Each time is later than the write itself, by the latency of the watch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

RUNNING = "Running"
DELETED = "DELETED"


@dataclass(frozen=True)
class WorkerState:
    """The state of a Workload in one event."""

    name: str
    phase: str
    node: str
    refused: bool
    """Whether it waits with its own claim and kube-scheduler refused its Pod."""


@dataclass(frozen=True)
class SeatChange:
    """A change of the seats of a ledger."""

    seconds: float
    ledger: str
    gained: frozenset[str]
    lost: frozenset[str]


@dataclass
class Timeline:
    """The current state and the changes, from events in the order of arrival."""

    present: set[str] = field(default_factory=set)
    """Workloads that exist."""
    running: dict[str, str] = field(default_factory=dict)
    """Node of each running Workload."""
    refused: set[str] = field(default_factory=set)
    """Workloads that wait with their own claim refused."""
    running_since: dict[str, float] = field(default_factory=dict)
    """Last time at which each Workload started to run, or changed its node."""
    booked_at: dict[str, float] = field(default_factory=dict)
    """First time at which each worker was in a ledger."""
    seats: dict[str, frozenset[str]] = field(default_factory=dict)
    """Workers in each ledger."""
    changes: list[SeatChange] = field(default_factory=list)
    most_seats: int = 0
    """Maximum number of seats in any ledger so far."""

    def see_worker(self, event: str, worker: WorkerState, seconds: float) -> None:
        """Process an event of the Workload watch."""
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
        """Process an event of the ledger watch."""
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
        """Return the ledgers with exactly this number of seats, by name."""
        return sorted(ledger for ledger, workers in self.seats.items() if len(workers) == count)

    def by_node(self) -> dict[str, list[str]]:
        """Return the running workers of each node, both by name."""
        nodes: dict[str, list[str]] = defaultdict(list)
        for name, node in sorted(self.running.items()):
            nodes[node].append(name)
        return dict(sorted(nodes.items()))


@dataclass(frozen=True)
class HandOff:
    """A seat that passed from one worker to the next. Times as in `Timeline`."""

    freed_seconds: float
    booked_seconds: float
    successor: str


def find_hand_off(changes: Iterable[SeatChange], ledger: str, predecessor: str) -> HandOff | None:
    """Return the hand-off to the first worker that got the predecessor's seat, None if there is none yet.

    If one write frees and books the seat, both times are equal.
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
