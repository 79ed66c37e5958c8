"""Repair at rest: a seat or ledger removed manually while its workers run is soon restored.

During faults, a restart or the next event hides a missing wake-up. At rest nothing else happens, so only the
removal itself can activate the Workload (contract §6). Its seat must be restored under the Pod's assignment
ID, without a restart of that Pod (contract §5.6).
"""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import LEDGERS, PODS
from simulation.chaos.external import ExternalActors
from simulation.checks.invariants import seats_of
from simulation.cluster.simulated_cluster import SimulatedCluster

SOON_SECONDS = 30.0
"""Enough time for a repair at rest, and for two repairs that conflict."""


class RepairCheck:
    """Removes seats in a cluster at rest and checks their repair (contract §5.6, contract §8.2)."""

    def __init__(self, cluster: SimulatedCluster, external: ExternalActors) -> None:
        self._cluster = cluster
        self._external = external
        self.rounds = 0

    def __repr__(self) -> str:
        return f"<RepairCheck rounds={self.rounds}>"

    async def run(self, *, limit: int) -> list[str]:
        """Delete one ledger and remove one seat; return what was not repaired in time."""
        violations: list[str] = []
        for remove in (self._external.delete_ledger, self._external.remove_seat):
            ledger = next(self._within_limit(limit), None)
            if ledger is None:
                break
            held = seats_of(ledger)
            remove(ledger)
            await anyio.sleep(SOON_SECONDS)
            violations += self._violations_of(ledger, held)
            self.rounds += 1
        above_limit = next(self._above_limit(limit), None)
        if above_limit is not None:
            # Its worker has to move and must not book this ledger again: every write is checked for that.
            self._external.remove_seat(above_limit)
            await anyio.sleep(SOON_SECONDS)
        return violations

    def _within_limit(self, limit: int) -> Iterator[Record]:
        """Yield the ledgers with no more seats than the limit."""
        return (each for each in self._all_running() if not limit or len(seats_of(each)) <= limit)

    def _above_limit(self, limit: int) -> Iterator[Record]:
        """Yield the ledgers with more seats than the limit, which was lowered."""
        return (each for each in self._all_running() if 0 < limit < len(seats_of(each)))

    def _all_running(self) -> Iterator[Record]:
        """Yield the ledgers whose workers all run, the fullest first."""
        ledgers = self._cluster.server.store.all(LEDGERS, self._cluster.workloads.namespace)
        for ledger in sorted(ledgers, key=lambda each: (-len(seats_of(each)), each.key)):
            seats = seats_of(ledger)
            if seats and all(map(self._is_running, seats)):
                yield ledger

    def _is_running(self, seat: Document) -> bool:
        pod = self._cluster.server.store.get(PODS, self._cluster.workloads.pod_key(seat["workload"]))
        return pod is not None and not pod.deleting and pod.document["status"].get("phase") == "Running"

    def _violations_of(self, before: Record, held: list[Document]) -> Iterator[str]:
        after = self._cluster.server.store.get(LEDGERS, before.key)
        back = {(seat["workloadUID"], seat["assignmentID"]) for seat in seats_of(after)}
        for seat in held:
            if (seat["workloadUID"], seat["assignmentID"]) not in back:
                yield (
                    f"{seat['workload']} has no seat {SOON_SECONDS:g} s after its seat was removed from "
                    f"{before.key.name} by hand"
                )
            elif not self._is_running(seat):
                yield f"the Pod of {seat['workload']} was stopped although only its seat was removed by hand"
