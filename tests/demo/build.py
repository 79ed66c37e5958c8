"""Builders of API objects, views and results."""

from __future__ import annotations

from collections.abc import Sequence

from simulation.apiserver.documents import Document
from simulation.demo.cluster_view import ClusterView, State, Worker
from simulation.demo.handoff import Revision
from simulation.demo.history import Record
from simulation.demo.summary import Drain, Ending, Replacement

FULL = "WaitingForCapacity: no free device or seat of 60Gi; shared claims hold at most 2 workers"
DRAIN = Drain("n-0", ("fft-2", "fft-3"), ("fft-3",), 3.0, 3.5, 4.0, 5.0)
BUSY = "WaitingForCapacity: no free device of 20Gi; other workers hold devices that fit"


def workload(
    name: str, phase: str = "", *, deleting: bool = False, created: str = "", **status: str
) -> Document:
    metadata = {"name": name, "creationTimestamp": created or "2026-01-01T00:00:00Z"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    return {"metadata": metadata, "status": {"phase": phase, **status} if phase else {}}


def ledger(claim: str, *workers: str, exclusive: bool = False) -> Document:
    seats = [{"workload": name, "exclusive": exclusive} for name in workers]
    return {"metadata": {"name": f"ledger-of-{claim}"}, "spec": {"claimName": claim, "seats": seats}}


def claim(name: str, node: str = "", *devices: str) -> Document:
    """Return a claim, allocated if a node is given."""
    results = [{"pool": node, "device": device} for device in devices or ("gpu-0",)]
    status = {"allocation": {"devices": {"results": results}}} if node else {}
    return {"metadata": {"name": name}, "status": status}


def worker(name: str, state: State, *, claim: str = "", node: str = "", reason: str = "") -> Worker:
    return Worker(name, state, claim, node, reason)


def revisions(*steps: tuple[str, Sequence[str]]) -> list[Revision]:
    """Return versions of ledgers, one second apart."""
    return [
        Revision(name, tuple(seats), seen_seconds=float(second)) for second, (name, seats) in enumerate(steps)
    ]


def ending(
    view: ClusterView,
    records: Sequence[Record],
    seen: Sequence[Revision] = (),
    *,
    leaver: str = "fft-1",
    successor: str = "fft-2",
) -> Ending:
    by_name = {record.worker.name: record for record in records}
    return Ending(view, 10.0, by_name, seen, Replacement(leaver, successor, requested_seconds=1.5), DRAIN)
