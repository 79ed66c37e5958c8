"""Contract §5.6: what a crash, a hand edit or another process left in disagreement is brought together again.

The process that runs is what matters: a live Pod's claim and stamp win over status where its claim lives, and
a lost seat is booked again under the Pod's assignment. Nobody seated is ever evicted for it, and nothing is
taken away before fresh reads agree, since a cache may be behind another process's move.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.reasons import ReasonCode, sentence
from controller.api.status import Assignment, StatusUpdate, assignment_of
from controller.api.workload import Workload
from controller.observe.counters import RepairKind
from controller.reconcile.context import ReconcileContext
from controller.reconcile.seat_booker import ContendedError
from controller.reconcile.teardown import Departure
from controller.reconcile.worker_pods import PodOwnership, assignment_on, ownership_of
from informers.errors import Conflict, NotFound
from ledger.book import Booked, Contended
from ledger.names import is_claim_name
from ledger.state import ClaimLedger, SeatRef


class Repaired(Enum):
    """What the step leaves to the rest of the reconcile."""

    SOUND = auto()
    """Pod, status and seat agree: go on."""
    WAIT = auto()
    """Something was set in motion that an event will report."""
    CLEARED = auto()
    """The worker has no assignment any more: place it again."""


@dataclass(frozen=True)
class RepairResult:
    """The outcome of the step and the Workload as last written."""

    repaired: Repaired
    workload: Workload


class Repair:
    """Makes status, Pod and seat name the same assignment again."""

    def __init__(self, context: ReconcileContext, departure: Departure) -> None:
        self._context = context
        self._departure = departure

    async def inspect(self, workload: Workload, pod: Pod | None) -> RepairResult:
        """Check everything that this worker is recorded to hold, with and without a Pod."""
        if pod is not None and assignment_on(pod, workload) != assignment_of(workload):
            await self._agree(workload)
            return RepairResult(Repaired.WAIT, workload)
        if not workload.status.claim_name:
            return RepairResult(Repaired.SOUND, workload)
        claim = self._context.claim(workload.status.claim_name)
        if claim is None or (claim.deleting and not (pod is not None and pod.bound)):
            return await self._claim_gone(workload, pod)
        if not self._seat_stands(workload, claim):
            return await self._seat_again(workload, claim, pod)
        return RepairResult(Repaired.SOUND, await self._release_strays(workload))

    # Pod and status disagree

    async def _agree(self, workload: Workload) -> None:
        """Let the Pod's assignment win, or delete the Pod, whose end then wakes the worker."""
        pod = await self._context.live.pod_of(workload.name)
        live = await self._context.live.workload(workload.name)
        if pod is None or live is None or ownership_of(pod, live) is not PodOwnership.OURS:
            # The caches have taken in what was read.
            return self._context.requeue(workload)
        stamp = assignment_on(pod, live)
        if stamp == assignment_of(live):
            return self._context.requeue(workload)
        if await self._pod_wins(live, pod, stamp):
            await self._context.report(live, StatusUpdate(assignment=stamp))
            self._context.counters.record_repair(RepairKind.STATUS)
            return self._context.requeue(workload)
        if pod.metadata.deletion_timestamp is None:
            await self._context.writer.delete_pod(pod)
            self._context.counters.record_repair(RepairKind.POD)
        return None

    async def _pod_wins(self, workload: Workload, pod: Pod, stamp: Assignment) -> bool:
        if not is_claim_name(stamp.claim) or not stamp.assignment_id:
            return False
        claim = await self._context.live.claim(stamp.claim)
        if claim is None or (claim.deleting and not pod.bound):
            return False
        if not workload.status.claim_name:
            return True
        ledger = await self._context.live.ledger_of(stamp.claim)
        ref = SeatRef(workload.name, workload.uid, stamp.assignment_id)
        return ledger is not None and ledger.holds(ref)

    # The claim is gone

    async def _claim_gone(self, workload: Workload, pod: Pod | None) -> RepairResult:
        """Delete the Pod, wait, clear the assignment, release: the worker is placed again."""
        name = workload.status.claim_name
        claim = await self._context.live.claim(name)
        if claim is not None and not claim.deleting:
            # The cache lags, or somebody took the claim's label away: neither ends a worker.
            await self._context.writer.manage_claim(claim)
            self._context.counters.record_repair(RepairKind.LABEL)
            self._context.requeue(workload)
            return RepairResult(Repaired.WAIT, workload)
        return await self._clear(workload, pod, ReasonCode.WAITING_FOR_CAPACITY, f"{name} is gone")

    async def _clear(
        self, workload: Workload, pod: Pod | None, code: ReasonCode, detail: str, message: str | None = None
    ) -> RepairResult:
        """Order down: the Pod, then status, then the seat."""
        if pod is not None:
            if pod.metadata.deletion_timestamp is None and await self._context.writer.delete_pod(pod):
                self._context.requeue(workload)
            return RepairResult(Repaired.WAIT, workload)
        return RepairResult(
            Repaired.CLEARED, await self._departure.clear(workload, code, detail, message=message)
        )

    # The seat vanished or stands under another assignment

    def _seat_stands(self, workload: Workload, claim: ResourceClaim) -> bool:
        """Whether the ledger that owns the claim holds exactly the recorded booking."""
        ledger = self._context.ledger(claim.metadata.name)
        ref = SeatRef(workload.name, workload.uid, workload.status.assignment_id)
        return ledger is not None and claim.owned_by(ledger.metadata.uid) and ledger.holds(ref)

    async def _seat_again(self, workload: Workload, claim: ResourceClaim, pod: Pod | None) -> RepairResult:
        """Book the recorded assignment again; where that is refused the worker moves, nobody is evicted.

        A fresh read shows first that the worker still is what it was: another process may be releasing this
        very seat, for a deletion that this cache does not show yet.
        """
        recorded = assignment_of(workload)
        live = await self._context.live.workload(workload.name)
        if live is None or live.uid != workload.uid or assignment_of(live) != recorded:
            raise ContendedError(workload.name)
        if live.deleting or live.terminal:
            self._context.requeue(workload)
            return RepairResult(Repaired.WAIT, workload)
        booking = self._context.requests.seat_request(workload, recorded=recorded.assignment_id, pod=pod)
        answer = await self._context.book.repair(recorded.claim, booking)
        if isinstance(answer, Contended):
            raise ContendedError(recorded.claim)
        if isinstance(answer, Booked):
            if answer.wrote:
                self._context.counters.record_repair(RepairKind.SEAT)
            await self._repoint(claim, answer.ledger)
            return RepairResult(Repaired.SOUND, workload)
        self._context.counters.record_repair(RepairKind.SEAT_REFUSED)
        detail = f"the seat on {recorded.claim} is taken"
        message = f"{sentence(ReasonCode.SEAT_LOST, detail)}: {answer.refusal.text}"
        return await self._clear(workload, pod, ReasonCode.SEAT_LOST, detail, message)

    async def _repoint(self, claim: ResourceClaim, ledger: ClaimLedger) -> None:
        """A recreated ledger takes over its live claim first thing, or garbage collection deletes it.

        By what a fresh read shows: while conflicts with an old cache were tried again, that would happen.
        """
        if claim.owned_by(ledger.metadata.uid):
            return
        live = await self._context.live.claim(claim.metadata.name)
        if live is None or live.metadata.uid != claim.metadata.uid:
            raise ContendedError(claim.metadata.name)
        try:
            await self._context.writer.repoint_claim(live, ledger)
            self._context.counters.record_repair(RepairKind.OWNER)
        except (Conflict, NotFound) as error:
            raise ContendedError(claim.metadata.name) from error

    # Strays

    async def _release_strays(self, workload: Workload) -> Workload:
        """Release seats that status does not name, behind a status write that fences their bookers."""
        strays = [(c, s.ref) for c, s in self._context.seats(workload) if c != workload.status.claim_name]
        if not strays:
            return workload
        live = await self._context.live.workload(workload.name)
        if live is None or live.uid != workload.uid or live.deleting or live.terminal:
            return workload
        claim, ref = strays[0]
        if assignment_of(live) != assignment_of(workload):
            return live
        note = f"releasing the seat on {claim} under assignment {ref.assignment_id}"
        fenced = await self._context.fencing_write(live, note)
        await self._departure.release_shown_empty(fenced, claim, [ref])
        self._context.counters.record_repair(RepairKind.STRAY)
        if len(strays) > 1:
            self._context.requeue(fenced)
        return fenced
