"""An independent observer of ledgers: every revision, as a watch of the API server shows it.

It uses neither the controller's informers nor its decoder, so that it does not share their bugs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from e2e.controlplane import Cluster, Object
from e2e.harness.raw_watch import watched
from e2e.harness.workloads import LEDGERS


@dataclass(frozen=True)
class Revision:
    """The seats of one ledger at one revision, and the monotonic time of observation."""

    ledger: str
    seats: tuple[str, ...]
    seen_seconds: float


class LedgerWitness:
    """Collects revisions in the background."""

    def __init__(self) -> None:
        self._revisions: list[Revision] = []

    def __repr__(self) -> str:
        return f"<LedgerWitness revisions={len(self._revisions)}>"

    @property
    def revisions(self) -> list[Revision]:
        """All observed revisions, oldest first."""
        return list(self._revisions)

    @property
    def most_seats(self) -> int:
        """The maximum number of seats in any ledger at any revision."""
        return max((len(revision.seats) for revision in self.revisions), default=0)

    @property
    def names(self) -> set[str]:
        """The names of all observed ledgers."""
        return {revision.ledger for revision in self.revisions}

    def lost_seats(self, final: Mapping[str, list[str]]) -> list[str]:
        """Return the seats of `final` (worker names by ledger) that a revision after their booking lacks."""
        lost = []
        for ledger, workers in final.items():
            revisions = [set(each.seats) for each in self.revisions if each.ledger == ledger]
            for worker in workers:
                held = [worker in seats for seats in revisions]
                if False in held[held.index(True) :] if True in held else True:
                    lost.append(f"{worker} on {ledger}")
        return lost

    def record(self, kind: str, ledger: Object) -> None:
        if kind == "DELETED":
            return
        seats = tuple(seat["workload"] for seat in ledger["spec"].get("seats", []))
        self._revisions.append(Revision(ledger["metadata"]["name"], seats, time.monotonic()))


@contextmanager
def witnessed_ledgers(cluster: Cluster) -> Iterator[LedgerWitness]:
    """Observe the ledgers while the block runs."""
    witness = LedgerWitness()
    with watched(cluster, LEDGERS, witness.record):
        yield witness
