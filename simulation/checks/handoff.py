"""Whose turn is it? A seat is freed in a cluster at rest, and the next one on it must be the right one.

In the middle of faults a younger worker may rightly come first: the older one is in a back-off, its process
was dead, its answer was lost. At rest there is no such excuse. More workers come until some have to wait;
then one on a full claim succeeds. Of those who wait and fit, as the server's objects say, the oldest must
have the seat, and well before anybody looks again by himself. Nothing is judged where the oldest has been on
that claim before: it may rightly hold back (contract §5.7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio

from informers.api import ObjectKey
from simulation.apiserver.documents import Record
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.apiserver.store import Change
from simulation.checks.idle_capacity import IdleCapacity
from simulation.checks.invariants import claim_names, seats_of
from simulation.cluster.simulated import SimulatedCluster
from simulation.cluster.workloads import workload

ROUNDS = 3
SHARING = 2
"""Seats from which on the end of one worker frees a seat and no device."""

WAITING = 3
"""So many that could share shall wait."""

COMERS_MAX = 12
"""So many workers come at most; a fleet that takes them all is too large for this."""

SETTLE_SECONDS = 3.0
"""From the coming of a worker until it waits, or does not."""

PROMPT_SECONDS = 5.0
"""The time to see a Pod end, release its seat and book it again; half the shortest retry interval."""


@dataclass
class _Try:
    """One seat that was freed."""

    ledger: str
    expected: list[str] = field(default_factory=list)
    """Those who wait and fit, the oldest first, as of the release."""
    takers: list[str] = field(default_factory=list)
    """Those who came to the ledger, in order. Where there was room for all, who was first is no matter."""
    released: bool = False
    went_elsewhere: bool = False
    """Whether the oldest of them took another seat: the end of the worker had made room for that, too."""


class HandOffCheck:
    """Frees seats of one cluster and sees who gets them. To be made at the start of the run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._server = cluster.server
        self._been_on: set[tuple[str, str]] = set()
        self._limit = 0
        self._try: _Try | None = None
        self.rounds = 0
        cluster.server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<HandOver rounds={self.rounds}>"

    async def judge(self, *, limit: int) -> list[str]:
        """Free up to `ROUNDS` seats, one after the other; returns what went wrong."""
        self._limit = limit
        wrong: list[str] = []
        await self._come()
        for _ in range(ROUNDS):
            found = self._occasion()
            if found is None:
                break
            ledger, pod = found
            self._try = tried = _Try(ledger)
            self._cluster.kubelet.succeed(pod)
            await anyio.sleep(PROMPT_SECONDS)
            self._try = None
            wrong += self._verdict(tried)
        return wrong

    async def _come(self) -> None:
        """Let small workers that share come, until enough of them wait."""
        openrl = self._cluster.workloads
        for number in range(COMERS_MAX):
            look = IdleCapacity(self._server, openrl.namespace, self._limit)
            if sum(need.shares for need in look.waiting()) >= WAITING:
                return
            openrl.submit(workload(f"comer-{number}", memory="8Gi"))
            await anyio.sleep(SETTLE_SECONDS)

    def _verdict(self, tried: _Try) -> Iterator[str]:
        if not tried.released:
            yield f"no seat of {tried.ledger} was released {PROMPT_SECONDS:g} s after its worker had ended"
            return
        if not tried.expected or tried.went_elsewhere:
            return
        self.rounds += 1
        oldest = tried.expected[0]
        if not tried.takers:
            yield f"{oldest} waits {PROMPT_SECONDS:g} s after a seat of {tried.ledger} was freed"
        elif oldest not in tried.takers:
            yield f"{tried.takers[0]} took the seat of {tried.ledger} that {oldest} had waited for longer"

    def _occasion(self) -> tuple[str, ObjectKey] | None:
        """A full ledger and a running Pod on it, where somebody waits who would fit in its place."""
        namespace = self._cluster.workloads.namespace
        look = IdleCapacity(self._server, namespace, self._limit)
        if not any(need.shares for need in look.waiting()):
            return None
        for ledger in self._server.store.all(LEDGERS, namespace):
            seats = seats_of(ledger)
            if len(seats) < SHARING or (self._limit and len(seats) > self._limit):
                continue
            for seat in seats:
                pod = self._server.store.get(PODS, self._cluster.workloads.pod_key(seat["workload"]))
                if pod is not None and not pod.deleting and pod.document["status"].get("phase") == "Running":
                    return ledger.key.name, pod.key
        return None

    # Watching.

    def _on_change(self, change: Change) -> None:
        if change.kind is WORKLOADS:
            claim = (change.record.document.get("status") or {}).get("claimName")
            self._been_on.add((change.record.uid, str(claim)))
        elif self._try is not None and change.kind is LEDGERS:
            if change.record.key.name == self._try.ledger:
                self._on_ledger(self._try, change.before, change.record)
            elif self._try.expected:
                names = {seat["workload"] for seat in seats_of(change.record)}
                self._try.went_elsewhere |= self._try.expected[0] in names - {
                    seat["workload"] for seat in seats_of(change.before)
                }

    def _on_ledger(self, tried: _Try, before: Record | None, after: Record) -> None:
        was = {seat["workloadUID"] for seat in seats_of(before)}
        now = {seat["workloadUID"]: seat["workload"] for seat in seats_of(after)}
        if was - set(now) and not tried.released:
            tried.released = True
            tried.expected = self._fitting(after)
        came = [name for uid, name in now.items() if uid not in was]
        tried.takers += came

    def _fitting(self, ledger: Record) -> list[str]:
        """Those who wait and could take a seat there, the oldest first; nobody, where that is not certain."""
        namespace = self._cluster.workloads.namespace
        look = IdleCapacity(self._server, namespace, self._limit)
        fitting = []
        for need in look.waiting():
            waiter = self._server.store.get(WORKLOADS, ObjectKey(namespace, need.name))
            if waiter is not None and need.shares and look.has_seat(ledger, need):
                fitting.append((waiter.metadata["creationTimestamp"], need.name, waiter.uid))
        fitting.sort()
        claim = ledger.document["spec"]["claimName"]
        if not fitting or (fitting[0][2], claim) in self._been_on:
            return []
        return [name for _, name, _ in fitting] if self._only_waits(fitting[0][1]) else []

    def _only_waits(self, name: str) -> bool:
        """Whether kube-scheduler has not taken up its Pod: the same end may have freed a device for it."""
        pod = self._server.store.get(PODS, self._cluster.workloads.pod_key(name))
        if pod is None or pod.document["spec"].get("nodeName"):
            return False
        claims = [
            self._server.document(CLAIMS, claim, pod.key.namespace) for claim in claim_names(pod.document)
        ]
        return not any(claim and (claim.get("status") or {}).get("allocation") for claim in claims)
