"""Back-off of one process: which claims a worker avoids, and when it tries again after a rejection.

The state is lost on a restart, which costs one more attempt per claim or worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controller.api import convert
from controller.api.dra import Allocation, ResourceClaim
from controller.api.reasons import ReasonCode, has_code
from controller.api.workload import Workload
from controller.cluster.caches import Caches
from informers.api import ObjectKey
from placement.types import Node

CLAIM_HOLD_RANGE_SECONDS = (60.0, 30 * 60.0)


REJECTION_HOLD_RANGE_SECONDS = (1.0, 300.0)


@dataclass(frozen=True)
class _Hold:
    """A pause that lasts twice as long each time."""

    count: int
    seconds: float
    until_seconds: float


def _next_hold(before: _Hold | None, range_seconds: tuple[float, float], now_seconds: float) -> _Hold:
    shortest, longest = range_seconds
    count, seconds = (0, shortest) if before is None else (before.count, min(before.seconds * 2, longest))
    return _Hold(count + 1, seconds, now_seconds + seconds)


@dataclass(frozen=True)
class _RefusingClaim:
    """A claim that refused a worker, as it was then."""

    name: str
    allocation: Allocation | None
    node: Node | None
    hold: _Hold


class ClaimBackoff:
    """Claims, by UID, that recently refused a worker and are not offered to it.

    A hold ends with its time, or when the claim or its node changes. Without it, one refusal could repeat
    forever while other capacity is free (contract §5.7).
    """

    def __init__(self, caches: Caches, namespace: str, monotonic: Callable[[], float]) -> None:
        self._caches = caches
        self._namespace = namespace
        self._monotonic = monotonic
        self._claims: dict[str, dict[str, _RefusingClaim]] = {}

    def __repr__(self) -> str:
        return f"<ClaimBackoff workers={len(self._claims)}>"

    def add(self, worker_uid: str, claim: ResourceClaim) -> None:
        """Hold a claim that has just refused the worker; each time for twice as long."""
        claims = self._claims.setdefault(worker_uid, {})
        meta, before = claim.metadata, claims.get(claim.metadata.uid)
        hold = _next_hold(before.hold if before else None, CLAIM_HOLD_RANGE_SECONDS, self._monotonic())
        claims[meta.uid] = _RefusingClaim(meta.name, claim.status.allocation, self._node(claim), hold)

    def observe_status(self, before: Workload, after: Workload) -> None:
        """Hold a claim that another process abandoned; otherwise two replicas keep moving the worker."""
        name, status = before.status.claim_name, after.status
        if not name or status.claim_name or not has_code(status.reason, ReasonCode.REPLACING_WEDGED_CLAIM):
            return
        claim = self._caches.claims.store.get(ObjectKey(self._namespace, name))
        if claim is not None and claim.metadata.uid not in self.held_claims(after.uid):
            self.add(after.uid, claim)

    def held_claims(self, worker_uid: str) -> tuple[str, ...]:
        """Return the UIDs of the claims that are not offered to this worker now."""
        claims = self._claims.get(worker_uid)
        if not claims:
            return ()
        for uid, refusing in tuple(claims.items()):
            if self._has_changed(uid, refusing):
                del claims[uid]
        now = self._monotonic()
        return tuple(uid for uid, refusing in claims.items() if now < refusing.hold.until_seconds)

    def forget(self, worker_uid: str) -> None:
        """Drop all holds of a worker."""
        self._claims.pop(worker_uid, None)

    def _has_changed(self, uid: str, before: _RefusingClaim) -> bool:
        claim = self._caches.claims.store.get(ObjectKey(self._namespace, before.name))
        if claim is None or claim.metadata.uid != uid or claim.status.allocation != before.allocation:
            return True
        return self._node(claim) != before.node

    def _node(self, claim: ResourceClaim) -> Node | None:
        node = self._caches.nodes.store.get(ObjectKey("", convert.claim_node(claim)))
        return None if node is None else convert.node(node)


class RejectionBackoff:
    """Back-off of workers whose Pod the API server or a kubelet rejects (quota, webhook, full node).

    Each attempt books a seat, writes a status, and undoes both. Activations do not shorten the back-off:
    otherwise a full quota would turn every freed seat into a storm of writes.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._holds: dict[str, _Hold] = {}

    def __repr__(self) -> str:
        return f"<RejectionBackoff held={len(self._holds)}>"

    def add(self, worker_uid: str) -> float:
        """Count one more rejection; returns the seconds to wait, twice as many as before."""
        hold = _next_hold(self._holds.get(worker_uid), REJECTION_HOLD_RANGE_SECONDS, self._monotonic())
        self._holds[worker_uid] = hold
        return hold.seconds

    def count(self, worker_uid: str) -> int:
        """Return the number of rejections since the worker last ran."""
        hold = self._holds.get(worker_uid)
        return 0 if hold is None else hold.count

    def remaining_seconds(self, worker_uid: str) -> float:
        """Return how long this worker still has to wait."""
        hold = self._holds.get(worker_uid)
        return 0.0 if hold is None else max(0.0, hold.until_seconds - self._monotonic())

    def forget(self, worker_uid: str) -> None:
        """End the back-off of a worker."""
        self._holds.pop(worker_uid, None)
