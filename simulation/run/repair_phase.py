"""What a hand takes away at rest is back soon: a seat, or a whole ledger, under workers that run.

In the middle of faults a restart or the next event hides that nobody was woken. At rest nothing else happens:
whoever runs is looked at again only if what went is told (contract §6), and its seat must come back under the
assignment that its Pod was made for, without an end to that Pod (contract §5.6).
"""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import LEDGERS, PODS
from simulation.chaos.external import ExternalActors
from simulation.checks.invariants import seats_of
from simulation.cluster.simulated import SimulatedCluster

SOON_SECONDS = 30.0
"""Ample for a repair that nothing disturbs, and for two that get into each other's way."""


class RepairCheck:
    """Breaks a cluster at rest and sees it mended."""

    def __init__(self, cluster: SimulatedCluster, hands: ExternalActors) -> None:
        self._cluster = cluster
        self._hands = hands
        self.rounds = 0

    def __repr__(self) -> str:
        return f"<Mending rounds={self.rounds}>"

    async def judge(self, *, limit: int) -> list[str]:
        """Delete one ledger and take one seat away; returns what was not mended in time."""
        wrong: list[str] = []
        for take_away in (self._hands.delete_ledger, self._hands.remove_seat):
            ledger = next(self._suitable(limit), None)
            if ledger is None:
                break
            held = seats_of(ledger)
            take_away(ledger)
            await anyio.sleep(SOON_SECONDS)
            wrong += self._missing(ledger, held)
            self.rounds += 1
        crowded = next(self._crowded(limit), None)
        if crowded is not None:
            # Its worker has to move, and may not come back in here: that is checked with every write.
            self._hands.remove_seat(crowded)
            await anyio.sleep(SOON_SECONDS)
        return wrong

    def _suitable(self, limit: int) -> Iterator[Record]:
        """Ledgers with no more seats than the limit."""
        return (each for each in self._busy() if not limit or len(seats_of(each)) <= limit)

    def _crowded(self, limit: int) -> Iterator[Record]:
        """Ledgers that have more seats than the limit, which was lowered."""
        return (each for each in self._busy() if 0 < limit < len(seats_of(each)))

    def _busy(self) -> Iterator[Record]:
        """Ledgers on which everybody runs; the fullest first."""
        ledgers = self._cluster.server.store.all(LEDGERS, self._cluster.workloads.namespace)
        for ledger in sorted(ledgers, key=lambda each: (-len(seats_of(each)), each.key)):
            seats = seats_of(ledger)
            if seats and all(map(self._runs, seats)):
                yield ledger

    def _runs(self, seat: Document) -> bool:
        pod = self._cluster.server.store.get(PODS, self._cluster.workloads.pod_key(seat["workload"]))
        return pod is not None and not pod.deleting and pod.document["status"].get("phase") == "Running"

    def _missing(self, before: Record, held: list[Document]) -> Iterator[str]:
        after = self._cluster.server.store.get(LEDGERS, before.key)
        back = {(seat["workloadUID"], seat["assignmentID"]) for seat in seats_of(after)}
        for seat in held:
            if (seat["workloadUID"], seat["assignmentID"]) not in back:
                yield (
                    f"{seat['workload']} runs, and {SOON_SECONDS:g} s after its seat was taken from "
                    f"{before.key.name} by hand it has none"
                )
            elif not self._runs(seat):
                yield f"the Pod of {seat['workload']} was ended for a seat that was taken away by hand"
