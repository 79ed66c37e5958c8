"""What one process remembers of the world's past, because no object holds it.

When an allocation was first seen, which targets have just refused a worker, when a worker last waited for
something that its time limit does not count, how often its Pod was refused, and how old times of objects are.
All of it may be lost in a
restart: then most clocks start anew, and nothing is decided wrongly, only later. Ages are asked of the wall
clock again, and one that is hours ahead ends a wait early.

Back-off for workers whose Pod the API server or a kubelet refuses for now (quota, webhook, full node).

Each attempt books a seat, writes a status, and undoes both: without a back-off that survives wake-ups, a full
quota would turn every freed seat into a storm of writes. Loop time counts: a wall clock that is set back
would hold a worker for as long as that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import anyio

from controller.api import convert
from controller.api.dra import Allocation, ResourceClaim
from controller.api.reasons import ReasonCode, has_code
from controller.api.status import waiting_since
from controller.api.workload import Workload
from controller.cluster.caches import Caches
from controller.reconcile.ages import Ages
from informers.api import ObjectKey
from placement.types import Node

CLAIM_HOLD_MIN_SECONDS = 60.0
CLAIM_HOLD_MAX_SECONDS = 30 * 60.0


class AllocationTimes:
    """When each claim's present allocation was first seen. An inline handler of the claims' cache."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, tuple[Allocation, float]] = {}

    def __repr__(self) -> str:
        return f"<AllocationTimes seen={len(self._seen)}>"

    def since_seen(self, claim: ResourceClaim) -> timedelta:
        """How long ago this allocation was first seen; 0 for one that was never told of."""
        seen = self._seen.get(claim.metadata.uid)
        if seen is None or seen[0] != claim.status.allocation:
            return timedelta()
        return timedelta(seconds=self._monotonic() - seen[1])

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Record the present allocation of a claim, or drop a deleted claim."""
        claim = new or old
        if claim is None:
            return
        uid, allocation = claim.metadata.uid, claim.status.allocation
        if new is None or allocation is None:
            self._seen.pop(uid, None)
        elif uid not in self._seen or self._seen[uid][0] != allocation:
            self._seen[uid] = (allocation, self._monotonic())


@dataclass(frozen=True)
class _Refusal:
    """A target that refused a worker, as it was then."""

    allocation: Allocation | None
    node: Node | None
    hold_seconds: float
    until_seconds: float
    """Of the monotonic clock."""


class ClaimBackoff:
    """Claims, by UID, that are not offered to a worker again until they or their node change, or for a while.

    The same refusal must never repeat for ever while other capacity is free (contract §5.7).
    """

    def __init__(self, caches: Caches, namespace: str, monotonic: Callable[[], float]) -> None:
        self._caches = caches
        self._namespace = namespace
        self._monotonic = monotonic
        self._refusals: dict[str, dict[str, tuple[str, _Refusal]]] = {}

    def __repr__(self) -> str:
        return f"<RefusedTargets workers={len(self._refusals)}>"

    def add(self, worker_uid: str, claim: ResourceClaim) -> None:
        """This claim has just refused the worker; its hold doubles with each time."""
        targets = self._refusals.setdefault(worker_uid, {})
        before = targets.get(claim.metadata.uid)
        hold = CLAIM_HOLD_MIN_SECONDS
        if before is not None:
            hold = min(before[1].hold_seconds * 2, CLAIM_HOLD_MAX_SECONDS)
        refusal = _Refusal(claim.status.allocation, self._node(claim), hold, self._monotonic() + hold)
        targets[claim.metadata.uid] = (claim.metadata.name, refusal)

    def abandoned_elsewhere(self, before: Workload, after: Workload) -> None:
        """Remember what another process abandoned too, or both hand the worker to and fro."""
        name, status = before.status.claim_name, after.status
        if not name or status.claim_name or not has_code(status.reason, ReasonCode.REPLACING_WEDGED_CLAIM):
            return
        claim = self._caches.claims.store.get(ObjectKey(self._namespace, name))
        if claim is not None and claim.metadata.uid not in self.of(after.uid):
            self.add(after.uid, claim)

    def of(self, worker_uid: str) -> tuple[str, ...]:
        """The UIDs of the claims that are not offered to this worker now."""
        targets = self._refusals.get(worker_uid)
        if not targets:
            return ()
        for uid, (name, refusal) in tuple(targets.items()):
            if self._changed(uid, name, refusal):
                del targets[uid]
        now = self._monotonic()
        return tuple(uid for uid, (_, refusal) in targets.items() if now < refusal.until_seconds)

    def forget(self, worker_uid: str) -> None:
        """The worker is placed, or has ended."""
        self._refusals.pop(worker_uid, None)

    def _changed(self, uid: str, name: str, refusal: _Refusal) -> bool:
        claim = self._caches.claims.store.get(ObjectKey(self._namespace, name))
        if claim is None or claim.metadata.uid != uid or claim.status.allocation != refusal.allocation:
            return True
        return self._node(claim) != refusal.node

    def _node(self, claim: ResourceClaim) -> Node | None:
        node = self._caches.nodes.store.get(ObjectKey("", convert.claim_node(claim)))
        return None if node is None else convert.node(node)


class TimeoutExemptions:
    """When a worker last waited for something that the placement timeout does not count."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last_seconds: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<UncountedWaits workers={len(self._last_seconds)}>"

    def note(self, worker_uid: str) -> None:
        """It waits like that now."""
        self._last_seconds[worker_uid] = self._monotonic()

    def since(self, worker_uid: str) -> timedelta | None:
        """How long ago it last did; `None`: it never did."""
        last_seconds = self._last_seconds.get(worker_uid)
        return None if last_seconds is None else timedelta(seconds=self._monotonic() - last_seconds)

    def forget(self, worker_uid: str) -> None:
        """The worker is placed, or has ended."""
        self._last_seconds.pop(worker_uid, None)


@dataclass(frozen=True)
class LocalState:
    """All that is remembered."""

    allocations: AllocationTimes
    refused: ClaimBackoff
    uncounted: TimeoutExemptions
    rejections: RejectionBackoff
    ages: Ages

    @classmethod
    def empty(
        cls,
        caches: Caches,
        namespace: str,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> LocalState:
        """A process that has just started; it follows the caches from here on.

        `now` is the wall clock, which times of objects are compared with once; `monotonic` counts all else,
        in seconds: no hand sets it back.
        """
        refused = ClaimBackoff(caches, namespace, monotonic)
        memory = cls(
            AllocationTimes(monotonic),
            refused,
            TimeoutExemptions(monotonic),
            RejectionBackoff(monotonic),
            Ages(now, monotonic),
        )
        caches.claims.on_change(memory.allocations.claim_changed, inline=True)

        def workload_changed(old: Workload | None, new: Workload | None) -> None:
            if new is None:
                if old is not None:
                    memory.forget(old.uid)
                return
            # A Workload of the first list may have begun its wait long before this process started.
            began = caches.workloads.store.synced if old is None else waiting_since(old) != waiting_since(new)
            if began:
                memory.ages.begins(new.uid)
            if old is not None:
                refused.abandoned_elsewhere(old, new)

        caches.workloads.on_change(workload_changed, inline=True)
        return memory

    def settle(self, worker_uid: str) -> None:
        """The worker is placed, or has ended: what it waited for counts no more."""
        self.refused.forget(worker_uid)
        self.uncounted.forget(worker_uid)
        self.rejections.forget(worker_uid)
        self.ages.settle(worker_uid)

    def forget(self, worker_uid: str) -> None:
        """The worker is gone."""
        self.settle(worker_uid)
        self.ages.forget(worker_uid)


REJECTION_HOLD_MIN_SECONDS = 1.0
REJECTION_HOLD_MAX_SECONDS = 300.0


@dataclass(frozen=True)
class _Hold:
    count: int
    delay_seconds: float
    until_seconds: float


class RejectionBackoff:
    """Doubles the wait of a worker with each refusal, from a second to five minutes."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._holds: dict[str, _Hold] = {}

    def __repr__(self) -> str:
        return f"<Rejections held={len(self._holds)}>"

    def add(self, uid: str) -> float:
        """One more refusal; returns the seconds to wait from now on."""
        before = self._holds.get(uid)
        delay = min(
            REJECTION_HOLD_MIN_SECONDS if before is None else before.delay_seconds * 2,
            REJECTION_HOLD_MAX_SECONDS,
        )
        count = 1 if before is None else before.count + 1
        self._holds[uid] = _Hold(count, delay, self._monotonic() + delay)
        return delay

    def count(self, uid: str) -> int:
        """The refusals since the worker last ran."""
        held = self._holds.get(uid)
        return 0 if held is None else held.count

    def hold(self, uid: str) -> float:
        """The seconds that this worker still has to wait, 0 if none."""
        held = self._holds.get(uid)
        return 0.0 if held is None else max(0.0, held.until_seconds - self._monotonic())

    def forget(self, uid: str) -> None:
        """The Pod was accepted, or the worker has ended."""
        self._holds.pop(uid, None)

    def statistics(self) -> dict[str, int]:
        """How many workers are held back."""
        return {"held": len(self._holds)}
