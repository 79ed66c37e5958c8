"""When each worker was first seen, first ran and disappeared, as observed in views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simulation.demo.cluster_view import ClusterView, State, Worker


@dataclass(frozen=True)
class Record:
    """The history of one worker, in seconds of the caller's clock."""

    worker: Worker
    """The last observed state."""
    first_seen_seconds: float
    first_ran_seconds: float | None = None
    gone_seconds: float | None = None
    wait_reason: str = ""
    """The last reason while it waited, or empty if it never waited."""

    def waited_seconds(self, now_seconds: float) -> float:
        """Return the seconds from its appearance until it ran or was gone, or until now."""
        ends = [end for end in (self.first_ran_seconds, self.gone_seconds) if end is not None]
        return min(ends, default=now_seconds) - self.first_seen_seconds


class History:
    """The records of all workers, updated with each view."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def __repr__(self) -> str:
        return f"<History workers={len(self._records)}>"

    @property
    def records(self) -> Mapping[str, Record]:
        """The records by worker name, in order of appearance."""
        return dict(self._records)

    def record(self, view: ClusterView, now_seconds: float) -> None:
        """Update the records with a view."""
        for worker in view.workers:
            known = self._records.get(worker.name) or Record(worker, first_seen_seconds=now_seconds)
            self._records[worker.name] = _updated(known, worker, now_seconds)
        present = {worker.name for worker in view.workers}
        for name, record in self._records.items():
            if name not in present and record.gone_seconds is None:
                self._records[name] = replace(record, gone_seconds=now_seconds)


def _updated(known: Record, worker: Worker, now_seconds: float) -> Record:
    ran = known.first_ran_seconds
    if ran is None and worker.state is State.RUNNING:
        ran = now_seconds
    wait_reason = worker.reason if worker.state is State.WAITING and worker.reason else known.wait_reason
    return replace(known, worker=worker, first_ran_seconds=ran, wait_reason=wait_reason)
