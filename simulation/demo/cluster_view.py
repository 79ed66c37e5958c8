"""Rows for display, computed from API objects without I/O.

The lists behind a view are read sequentially, so a view may briefly be inconsistent. Nothing is
measured from views except the time at which a state is first seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from simulation.apiserver.documents import Document


class State(Enum):
    """The state of a worker as displayed."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    DELETING = "deleting"
    ENDED = "ended"


_STATES = {
    "": State.NEW,
    "Pending": State.WAITING,
    "Placing": State.STARTING,
    "Running": State.RUNNING,
    "Succeeded": State.ENDED,
    "Failed": State.ENDED,
}


@dataclass(frozen=True)
class Worker:
    """A Workload. `reason` is `status.reason`, which is empty while the worker runs."""

    name: str
    state: State
    claim: str
    node: str
    reason: str


@dataclass(frozen=True)
class ClaimRow:
    """An allocated claim, its devices, and its seats in ledger order."""

    claim: str
    node: str
    devices: tuple[str, ...]
    workers: tuple[str, ...]
    exclusive: bool


@dataclass(frozen=True)
class WaitingRow:
    """Workers that wait for the same reason."""

    workers: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class ClusterView:
    """The state of the cluster. Workers are in order of creation, claims by node and device."""

    workers: tuple[Worker, ...]
    claims: tuple[ClaimRow, ...]

    def worker(self, name: str) -> Worker | None:
        """Return the worker of that name, or `None`."""
        return next((worker for worker in self.workers if worker.name == name), None)

    def in_state(self, *states: State) -> tuple[str, ...]:
        """Return the names of the workers in any of these states."""
        return tuple(worker.name for worker in self.workers if worker.state in states)

    @property
    def waiting(self) -> tuple[WaitingRow, ...]:
        """Waiting workers by reason, the longest-waiting first."""
        return group_by_reason((w.name, w.reason) for w in self.workers if w.state is State.WAITING)

    @property
    def running_devices(self) -> int:
        """The number of GPUs with a running worker."""
        running = self.in_state(State.RUNNING)
        return sum(len(row.devices) for row in self.claims if any(name in running for name in row.workers))

    @property
    def is_settled(self) -> bool:
        """Whether every worker is running, waiting or ended."""
        return not self.in_state(State.NEW, State.STARTING, State.DELETING)

    @property
    def devices_in_use(self) -> int:
        """The number of allocated GPUs."""
        return sum(len(row.devices) for row in self.claims)


def read_view(
    workloads: Iterable[Document], ledgers: Iterable[Document], claims: Iterable[Document]
) -> ClusterView:
    """Build a view from lists of the three kinds."""
    seats = {ledger["spec"]["claimName"]: ledger["spec"].get("seats") or [] for ledger in ledgers}
    workers = sorted(workloads, key=_creation_order)
    return ClusterView(
        tuple(map(_worker, workers)), tuple(sorted(_claim_rows(claims, seats), key=_row_order))
    )


def group_by_reason(reasons: Iterable[tuple[str, str]]) -> tuple[WaitingRow, ...]:
    """Group workers by reason, in the order in which reasons first occur. Leave out workers without one."""
    groups: dict[str, list[str]] = {}
    for name, reason in reasons:
        if reason:
            groups.setdefault(reason, []).append(name)
    return tuple(WaitingRow(tuple(names), reason) for reason, names in groups.items())


def _creation_order(workload: Document) -> tuple[str, str, int]:
    # Creation timestamps are whole seconds; within one second, fft-2 comes before fft-10.
    kind, _, number = workload["metadata"]["name"].partition("-")
    return workload["metadata"].get("creationTimestamp", ""), kind, int(number) if number.isdecimal() else 0


def _worker(workload: Document) -> Worker:
    status: Mapping[str, str] = workload.get("status") or {}
    deleting = "deletionTimestamp" in workload["metadata"]
    return Worker(
        name=workload["metadata"]["name"],
        state=State.DELETING if deleting else _STATES[status.get("phase", "")],
        claim=status.get("claimName", ""),
        node=status.get("nodeName", ""),
        reason=status.get("reason", ""),
    )


def _claim_rows(claims: Iterable[Document], seats: Mapping[str, list[Document]]) -> Iterator[ClaimRow]:
    for claim in claims:
        name = claim["metadata"]["name"]
        allocation = (claim.get("status") or {}).get("allocation")
        if allocation is None:
            continue
        results = allocation["devices"]["results"]
        seated = seats.get(name, [])
        yield ClaimRow(
            claim=name,
            node=results[0]["pool"],  # the demo names each pool after its node
            devices=tuple(sorted(result["device"] for result in results)),
            workers=tuple(seat["workload"] for seat in seated),
            exclusive=any(seat.get("exclusive", False) for seat in seated),
        )


def _row_order(row: ClaimRow) -> tuple[str, tuple[str, ...], str]:
    return row.node, row.devices, row.claim
