"""Hand-off order: a freed seat goes to the oldest waiting worker that fits (contract §6, contract §8.8).

During faults, a younger worker may legitimately get the seat: the older one may be in a back-off, its process
may be dead, or its answer may be lost. At rest, none of these apply. The check submits workers until some
wait, then lets a worker on a full claim succeed. According to the server's objects, the oldest waiting worker
that fits must get the seat, well before the retry interval. The check passes if that worker was on the claim
before, or has left another one since it last ran: nodes may be closed to it, and it may pause before its next
seat (contract §5.7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio

from controller.api.reasons import Phase, ReasonCode, has_code
from informers.api import ObjectKey
from simulation.apiserver.documents import Record
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.apiserver.store import Change
from simulation.checks.idle_capacity import IdleCapacity
from simulation.checks.invariants import seats_of
from simulation.checks.pod_facts import claim_names
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload

ROUNDS = 3
SEATS_MIN = 2
"""The minimum number of seats where the end of one worker frees a seat but no device."""

WAITING_MIN = 3
"""How many workers that can share must wait."""

SUBMITTED_MAX = 12
"""The maximum number of submitted workers; a fleet that takes them all is too large for this check."""

SETTLE_SECONDS = 3.0
"""The time from a submission until the worker runs or waits."""

PROMPT_SECONDS = 5.0
"""The time to observe the end of a Pod and hand its seat off; half the shortest retry interval."""


@dataclass
class _FreedSeat:
    """One seat that the check freed."""

    ledger: str
    expected: list[str] = field(default_factory=list)
    """The waiting workers that fit at the time of the release, oldest first."""
    booked: list[str] = field(default_factory=list)
    """The workers that booked a seat in the ledger, in order. If all fit, their order does not matter."""
    released: bool = False
    booked_elsewhere: bool = False
    """Whether the oldest worker booked another seat, whose resources the ended worker also freed."""


class HandOffCheck:
    """Checks the hand-off of freed seats (contract §6, contract §8.8). Create it at the start of the run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._server = cluster.server
        self._past_claims: set[tuple[str, str]] = set()
        self._refused: set[str] = set()
        """UIDs of the workers that left a claim since they last ran."""
        self._limit = 0
        self._freed: _FreedSeat | None = None
        self.rounds = 0
        cluster.server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<HandOffCheck rounds={self.rounds}>"

    async def run(self, *, limit: int) -> list[str]:
        """Free up to `ROUNDS` seats, one at a time; return the violations."""
        self._limit = limit
        violations: list[str] = []
        await self._submit_until_some_wait()
        for _ in range(ROUNDS):
            choice = self._find_seat_to_free()
            if choice is None:
                break
            ledger, pod = choice
            self._freed = freed = _FreedSeat(ledger)
            self._cluster.kubelet.succeed(pod)
            await anyio.sleep(PROMPT_SECONDS)
            self._freed = None
            violations += self._violations_of(freed)
        return violations

    async def _submit_until_some_wait(self) -> None:
        """Submit small workers that share, until enough of them wait."""
        workloads = self._cluster.workloads
        for number in range(SUBMITTED_MAX):
            capacity = IdleCapacity(self._server, workloads.namespace, self._limit)
            if sum(need.shares for need in capacity.waiting()) >= WAITING_MIN:
                return
            workloads.submit(workload(f"comer-{number}", memory="8Gi"))
            await anyio.sleep(SETTLE_SECONDS)

    def _violations_of(self, freed: _FreedSeat) -> Iterator[str]:
        if not freed.released:
            yield f"no seat of {freed.ledger} was released within {PROMPT_SECONDS:g} s after its worker ended"
            return
        if not freed.expected or freed.booked_elsewhere:
            return
        self.rounds += 1
        oldest = freed.expected[0]
        if not freed.booked:
            yield f"{oldest} still waits {PROMPT_SECONDS:g} s after a seat of {freed.ledger} was freed"
        elif oldest not in freed.booked:
            yield f"{freed.booked[0]} got the seat of {freed.ledger} although {oldest} has waited longer"

    def _find_seat_to_free(self) -> tuple[str, ObjectKey] | None:
        """Return a ledger and a running Pod on it whose seat a waiting worker could get."""
        namespace = self._cluster.workloads.namespace
        capacity = IdleCapacity(self._server, namespace, self._limit)
        if not any(need.shares for need in capacity.waiting()):
            return None
        for ledger in self._server.store.all(LEDGERS, namespace):
            seats = seats_of(ledger)
            if len(seats) < SEATS_MIN or (self._limit and len(seats) > self._limit):
                continue
            for seat in seats:
                pod = self._server.store.get(PODS, self._cluster.workloads.pod_key(seat["workload"]))
                if pod is not None and not pod.deleting and pod.document["status"].get("phase") == "Running":
                    return ledger.key.name, pod.key
        return None

    # Observing writes.

    def _on_change(self, change: Change) -> None:
        if change.kind is WORKLOADS:
            self._on_workload(change.record)
        elif self._freed is not None and change.kind is LEDGERS:
            if change.record.key.name == self._freed.ledger:
                self._on_ledger(self._freed, change.before, change.record)
            elif self._freed.expected:
                names = {seat["workload"] for seat in seats_of(change.record)}
                self._freed.booked_elsewhere |= self._freed.expected[0] in names - {
                    seat["workload"] for seat in seats_of(change.before)
                }

    def _on_workload(self, record: Record) -> None:
        status = record.document.get("status") or {}
        self._past_claims.add((record.uid, str(status.get("claimName"))))
        if status.get("phase") == Phase.RUNNING.value:
            self._refused.discard(record.uid)
        elif has_code(status.get("reason", ""), ReasonCode.REPLACING_WEDGED_CLAIM):
            self._refused.add(record.uid)

    def _on_ledger(self, freed: _FreedSeat, before: Record | None, after: Record) -> None:
        before_uids = {seat["workloadUID"] for seat in seats_of(before)}
        names = {seat["workloadUID"]: seat["workload"] for seat in seats_of(after)}
        if before_uids - set(names) and not freed.released:
            freed.released = True
            freed.expected = self._fitting(after)
        freed.booked += [name for uid, name in names.items() if uid not in before_uids]

    def _fitting(self, ledger: Record) -> list[str]:
        """Return the waiting workers that could get a seat there, oldest first; none if that is uncertain."""
        namespace = self._cluster.workloads.namespace
        capacity = IdleCapacity(self._server, namespace, self._limit)
        fitting = []
        for need in capacity.waiting():
            waiting = self._server.store.get(WORKLOADS, ObjectKey(namespace, need.name))
            if waiting is not None and need.shares and capacity.has_seat(ledger, need):
                fitting.append((waiting.metadata["creationTimestamp"], need.name, waiting.uid))
        fitting.sort()
        claim = ledger.document["spec"]["claimName"]
        if not fitting or (fitting[0][2], claim) in self._past_claims or fitting[0][2] in self._refused:
            return []
        return [name for _, name, _ in fitting] if self._waits_for_seat_only(fitting[0][1]) else []

    def _waits_for_seat_only(self, name: str) -> bool:
        """Return whether the worker got no device, which the ended worker may have freed."""
        pod = self._server.store.get(PODS, self._cluster.workloads.pod_key(name))
        if pod is None or pod.document["spec"].get("nodeName"):
            return False
        claims = [
            self._server.document(CLAIMS, claim, pod.key.namespace) for claim in claim_names(pod.document)
        ]
        return not any(claim and (claim.get("status") or {}).get("allocation") for claim in claims)
