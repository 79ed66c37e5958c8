"""An in-memory API server for ledgers and claims, and a scheduler that controls every await point.

The seat protocol awaits only its `LedgerApi`, so processes can interleave only between its calls. Each call
of `FakeLedgerApi` stops once, before it takes effect, and the scheduler decides the fate of the call. An
answer needs no stop: other processes see no effect of it before the next call.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any, TypeVar

from ledger.api import LedgerConflict, LedgerError, LedgerExists, LedgerMissing, LedgerOutcomeUnknown
from ledger.claim_names import ledger_name
from ledger.seat_rules import LivePod
from ledger.state import ClaimLedger, Seat, decode, ledger_document, seat_document, seats_patch
from tests.ledger.build import CLAIM, LEDGER, LEDGER_UID

T = TypeVar("T")


class Fate(Enum):
    """The fate of a write."""

    ANSWERED = "answered"
    LOST_APPLIED = "took effect, no answer"
    LOST_UNAPPLIED = "no effect, no answer"
    LATE = "no answer, takes effect later"


Disturbance = Fate | Callable[[], object] | None


@dataclass
class World:
    """The stored state. `history` has the seats after every write, with the write's name."""

    ledgers: dict[str, dict[str, Any]] = field(default_factory=dict)
    claims: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Claim name to its UID and its owner's UID."""
    pods: list[LivePod] = field(default_factory=list)
    late: list[tuple[str, Callable[[], object]]] = field(default_factory=list)
    """Writes in flight, with the answers that their senders had received."""
    known: list[list[str]] = field(default_factory=list)
    """The answers of each `FakeLedgerApi` so far: a process can depend on nothing else."""
    history: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    revisions: Iterator[int] = field(default_factory=lambda: count(10))
    uids: Iterator[int] = field(default_factory=lambda: count(1))

    def get(self, name: str = LEDGER) -> ClaimLedger | None:
        document = self.ledgers.get(name)
        return None if document is None else decode(json.dumps(document).encode())

    @property
    def seated(self) -> list[str]:
        ledger = self.get()
        return [] if ledger is None else [seat.workload for seat in ledger.seats]

    def put(self, *seats: Seat, uid: str = LEDGER_UID, claim_uid: str = "uid-of-claim") -> ClaimLedger:
        """Store a ledger with its claim before the test begins."""
        document = ledger_document(CLAIM, "openrl-system", seats)
        document["metadata"] |= {"uid": uid, "resourceVersion": str(next(self.revisions))}
        self.ledgers[LEDGER] = document
        self.claims[CLAIM] = (claim_uid, uid)
        stored = self.get()
        assert stored is not None
        return stored

    def rewrite(self, *seats: Seat) -> None:
        """Write the seats as another process."""
        document = self.ledgers[LEDGER]
        document["spec"]["seats"] = [seat_document(seat) for seat in seats]
        self._store(document, "rewrite")

    def create(self, claim: str, seats: Sequence[Seat]) -> ClaimLedger:
        name = ledger_name(claim)
        if name in self.ledgers:
            raise LedgerExists(name)
        document = ledger_document(claim, "openrl-system", seats)
        document["metadata"]["uid"] = f"uid-{next(self.uids)}"
        self.ledgers[name] = document
        return self._store(document, "create")

    def write_seats(self, ledger: ClaimLedger, seats: Sequence[Seat]) -> ClaimLedger:
        document = self._at(ledger)
        document["spec"] |= seats_patch(ledger, seats)["spec"]
        return self._store(document, "write_seats")

    def delete(self, ledger: ClaimLedger) -> None:
        document = self._at(ledger)
        assert not document["spec"]["seats"], "a ledger was deleted while it had seats"
        del self.ledgers[ledger.metadata.name]

    def delete_claim(self, claim: str, uid: str) -> None:
        if claim in self.claims and self.claims[claim][0] == uid:
            owner = self.claims[claim][1]
            live = {document["metadata"]["uid"] for document in self.ledgers.values()}
            assert owner not in live, "a claim was deleted before its ledger"
            del self.claims[claim]

    def deliver_late(self) -> None:
        """Let the oldest write in flight take effect without an answer."""
        with suppress(LedgerError):
            self.late.pop(0)[1]()

    def collect_garbage(self) -> None:
        """Delete the claims whose owner does not exist, as Kubernetes does."""
        live = {document["metadata"]["uid"] for document in self.ledgers.values()}
        self.claims = {name: uids for name, uids in self.claims.items() if uids[1] in live}

    def _at(self, ledger: ClaimLedger) -> dict[str, Any]:
        document = self.ledgers.get(ledger.metadata.name)
        if document is None:
            raise LedgerMissing(ledger.metadata.name)
        stored = document["metadata"]
        if (stored["uid"], stored["resourceVersion"]) != (
            ledger.metadata.uid,
            ledger.metadata.resource_version,
        ):
            raise LedgerConflict(ledger.metadata.name)
        return document

    def _store(self, document: dict[str, Any], write: str) -> ClaimLedger:
        document["metadata"]["resourceVersion"] = str(next(self.revisions))
        stored = decode(json.dumps(document).encode())
        self.history.append((write, tuple(seat.workload for seat in stored.seats)))
        return stored


@types.coroutine
def stop(before: str) -> Generator[str, Fate | None, Fate]:
    """Stop at an await point. The scheduler gets `before` and returns the fate of the call."""
    return (yield before) or Fate.ANSWERED


class FakeLedgerApi:
    """The `LedgerApi` of one process. Its cache shows `view`, which may be stale."""

    def __init__(self, world: World, view: ClaimLedger | None) -> None:
        self._world = world
        self._view = view
        self._known: list[str] = []
        world.known.append(self._known)

    def cached(self, name: str) -> ClaimLedger | None:
        return self._view if self._view is None or self._view.metadata.name == name else None

    def live_pods(self, claim: str) -> Sequence[LivePod]:
        return tuple(self._world.pods) if claim == CLAIM else ()

    async def read(self, name: str) -> ClaimLedger | None:
        await stop("read")
        return self._answer("read", self._world.get(name))

    async def create(self, claim: str, seats: Sequence[Seat]) -> ClaimLedger:
        return await self._send("create", lambda: self._world.create(claim, seats))

    async def write_seats(self, ledger: ClaimLedger, seats: Sequence[Seat]) -> ClaimLedger:
        return await self._send("write_seats", lambda: self._world.write_seats(ledger, seats))

    async def delete(self, ledger: ClaimLedger) -> None:
        await self._send("delete", lambda: self._world.delete(ledger))

    async def read_claim_uid(self, claim: str, ledger_uid: str) -> str | None:
        await stop("read_claim_uid")
        uid, owner = self._world.claims.get(claim, ("", ""))
        return self._answer("read_claim_uid", uid if owner == ledger_uid and uid else None)

    async def delete_claim(self, claim: str, uid: str) -> None:
        await self._send("delete_claim", lambda: self._world.delete_claim(claim, uid))

    def _answer(self, request: str, answer: T) -> T:
        self._world.requests.append(request)
        content = answer.model_dump() if isinstance(answer, ClaimLedger) else answer
        self._known.append(f"{request}: {content}")
        return answer

    async def _send(self, request: str, take_effect: Callable[[], T]) -> T:
        fate = await stop(request)
        if fate is Fate.LATE:
            self._world.late.append((f"{request} after {self._known}", take_effect))
        if fate is Fate.LOST_APPLIED:
            with suppress(LedgerError):
                take_effect()
        if fate is not Fate.ANSWERED:
            self._answer(request, "lost")
            raise LedgerOutcomeUnknown(request)
        try:
            return self._answer(request, take_effect())
        except LedgerError as error:
            self._answer(request, type(error).__name__)
            raise


def run(
    process: Coroutine[Any, Any, T],
    disturb: Callable[[str], Disturbance] = lambda _: None,
) -> T:
    """Run one process to its end. At each await point `disturb` may change the world or lose a write."""
    fate: Fate | None = None
    while True:
        try:
            point = process.send(fate)
        except StopIteration as end:
            result: T = end.value
            return result
        disturbance = disturb(point)
        fate = disturbance if isinstance(disturbance, Fate) else None
        if disturbance is not None and not isinstance(disturbance, Fate):
            disturbance()


def script(
    *entries: tuple[str, Fate | Callable[[], object]],
) -> Callable[[str], Disturbance]:
    """Return a function that disturbs the named await points, each entry once, in this order."""
    remaining = list(entries)

    def disturb(point: str) -> Disturbance:
        if remaining and remaining[0][0] == point:
            return remaining.pop(0)[1]
        return None

    return disturb
