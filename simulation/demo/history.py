"""When each worker was first seen to come, run and go, as pictures showed it. Pure: times are handed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simulation.demo.cluster_view import ClusterView, State, Worker


@dataclass(frozen=True)
class Record:
    """One worker's life so far, in seconds of the caller's clock."""

    worker: Worker
    """As it was seen last."""
    came_seconds: float
    ran_seconds: float | None = None
    left_seconds: float | None = None
    waited_for: str = ""
    """The last reason that it gave while it waited; empty if it never did."""

    def waited_seconds(self, now_seconds: float) -> float:
        """From when it came until it ran or left, or until now."""
        ends = [end for end in (self.ran_seconds, self.left_seconds) if end is not None]
        return min(ends, default=now_seconds) - self.came_seconds


class History:
    """Grows by one picture after the other."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def __repr__(self) -> str:
        return f"<History workers={len(self._records)}>"

    @property
    def records(self) -> Mapping[str, Record]:
        """What is known of each worker by name, in the order of coming."""
        return dict(self._records)

    def see(self, view: ClusterView, now_seconds: float) -> None:
        """Take in one more picture."""
        for worker in view.workers:
            known = self._records.get(worker.name) or Record(worker, came_seconds=now_seconds)
            self._records[worker.name] = _updated(known, worker, now_seconds)
        present = {worker.name for worker in view.workers}
        for name, record in self._records.items():
            if name not in present and record.left_seconds is None:
                self._records[name] = replace(record, left_seconds=now_seconds)


def _updated(known: Record, worker: Worker, now_seconds: float) -> Record:
    ran = known.ran_seconds
    if ran is None and worker.state is State.RUNNING:
        ran = now_seconds
    waited_for = worker.reason if worker.state is State.WAITING and worker.reason else known.waited_for
    return replace(known, worker=worker, ran_seconds=ran, waited_for=waited_for)
