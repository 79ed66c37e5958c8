"""What the API server shows, turned into what a person wants to see. Pure.

The lists that a picture is made of are read one after the other, so that it may be out of step with itself
for an instant; nothing is measured from it but when something was first seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from simulation.apiserver.documents import Document


class State(Enum):
    """How far a worker is."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    LEAVING = "leaving"
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
    """A Workload. `reason` is `status.reason`, which is empty while it runs."""

    name: str
    state: State
    claim: str
    node: str
    reason: str


@dataclass(frozen=True)
class ClaimRow:
    """An allocated claim: its devices and who is seated there, in the order of the ledger."""

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
    """One look at the cluster. Workers are in order of creation, claims by node and device."""

    workers: tuple[Worker, ...]
    claims: tuple[ClaimRow, ...]

    def worker(self, name: str) -> Worker | None:
        """The worker of that name, if there is one."""
        return next((worker for worker in self.workers if worker.name == name), None)

    def in_state(self, *states: State) -> tuple[str, ...]:
        """The names of the workers in one of these states."""
        return tuple(worker.name for worker in self.workers if worker.state in states)

    @property
    def waiting(self) -> tuple[WaitingRow, ...]:
        """Who waits, by reason, the longest-waiting first."""
        return group_by_reason((w.name, w.reason) for w in self.workers if w.state is State.WAITING)

    @property
    def working_devices(self) -> int:
        """How many GPUs are held by a worker that runs."""
        running = self.in_state(State.RUNNING)
        return sum(len(row.devices) for row in self.claims if any(name in running for name in row.workers))

    @property
    def at_rest(self) -> bool:
        """Whether every worker runs, waits or has ended."""
        return not self.in_state(State.NEW, State.STARTING, State.LEAVING)

    @property
    def devices_in_use(self) -> int:
        """How many GPUs are allocated."""
        return sum(len(row.devices) for row in self.claims)


def read_view(
    workloads: Iterable[Document], ledgers: Iterable[Document], claims: Iterable[Document]
) -> ClusterView:
    """Turn the lists of the three kinds into a picture."""
    seats = {ledger["spec"]["claimName"]: ledger["spec"].get("seats") or [] for ledger in ledgers}
    workers = sorted(workloads, key=_creation_order)
    return ClusterView(tuple(map(_worker, workers)), tuple(sorted(_claim_rows(claims, seats), key=_place)))


def group_by_reason(reasons: Iterable[tuple[str, str]]) -> tuple[WaitingRow, ...]:
    """Workers with the same reason on one row, in order of the first; those without one are left out."""
    groups: dict[str, list[str]] = {}
    for name, reason in reasons:
        if reason:
            groups.setdefault(reason, []).append(name)
    return tuple(WaitingRow(tuple(names), reason) for reason, names in groups.items())


def _creation_order(workload: Document) -> tuple[str, str, int]:
    # The API server counts whole seconds; fft-2 shall come before fft-10 all the same.
    kind, _, number = workload["metadata"]["name"].partition("-")
    return workload["metadata"].get("creationTimestamp", ""), kind, int(number) if number.isdecimal() else 0


def _worker(workload: Document) -> Worker:
    status: Mapping[str, str] = workload.get("status") or {}
    leaving = "deletionTimestamp" in workload["metadata"]
    return Worker(
        name=workload["metadata"]["name"],
        state=State.LEAVING if leaving else _STATES[status.get("phase", "")],
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
            node=results[0]["pool"],  # the demo's fleet names each pool after its node
            devices=tuple(sorted(result["device"] for result in results)),
            workers=tuple(seat["workload"] for seat in seated),
            exclusive=any(seat.get("exclusive", False) for seat in seated),
        )


def _place(row: ClaimRow) -> tuple[str, tuple[str, ...], str]:
    return row.node, row.devices, row.claim
