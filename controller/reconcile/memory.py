"""What one process remembers of the world's past, because no object holds it.

When an allocation was first seen, which targets have just refused a worker, and how long a worker waited for
something that its time limit does not count. All of it may be lost in a restart: then the clocks start anew,
and nothing is decided wrongly, only later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import anyio

from controller import translate
from controller.caches import Caches
from controller.objects import Allocation, ResourceClaim
from controller.reasons import Code, is_about
from controller.workload import Workload
from informers.keys import ObjectKey
from placement.types import Node

FIRST_HOLD_SECONDS = 60.0
LONGEST_HOLD_SECONDS = 30 * 60.0


class Allocations:
    """When each claim's present allocation was first seen. An inline handler of the claims' cache."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._seen: dict[str, tuple[Allocation, datetime]] = {}

    def __repr__(self) -> str:
        return f"<Allocations seen={len(self._seen)}>"

    def seen_at(self, claim: ResourceClaim) -> datetime:
        """When this allocation was first seen; now, for one that was never told of."""
        seen = self._seen.get(claim.metadata.uid)
        return self._now() if seen is None or seen[0] != claim.status.allocation else seen[1]

    def on_add(self, obj: ResourceClaim, initial: bool, /) -> None:  # noqa: ARG002 - the handler protocol
        """A claim came."""
        self._take_in(obj)

    def on_update(self, old: ResourceClaim, new: ResourceClaim, /) -> None:  # noqa: ARG002 - the handler protocol
        """A claim changed, its allocation perhaps."""
        self._take_in(new)

    def on_delete(self, obj: ResourceClaim, /) -> None:
        """A claim went."""
        self._seen.pop(obj.metadata.uid, None)

    def _take_in(self, claim: ResourceClaim) -> None:
        uid, allocation = claim.metadata.uid, claim.status.allocation
        if allocation is None:
            self._seen.pop(uid, None)
        elif uid not in self._seen or self._seen[uid][0] != allocation:
            self._seen[uid] = (allocation, self._now())


@dataclass(frozen=True)
class _Refusal:
    """A target that refused a worker, as it was then."""

    allocation: Allocation | None
    node: Node | None
    hold_seconds: float
    until_seconds: float
    """In loop time, which no hand sets back."""


class RefusedTargets:
    """Claims, by UID, that are not offered to a worker again until they or their node change, or for a while.

    The same refusal must never repeat for ever while other capacity is free (section 5, step 7).
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
        hold = FIRST_HOLD_SECONDS
        if before is not None:
            hold = min(before[1].hold_seconds * 2, LONGEST_HOLD_SECONDS)
        refusal = _Refusal(claim.status.allocation, self._node(claim), hold, self._monotonic() + hold)
        targets[claim.metadata.uid] = (claim.metadata.name, refusal)

    def abandoned_elsewhere(self, before: Workload, after: Workload) -> None:
        """Remember what another process abandoned too, or both hand the worker to and fro."""
        name, status = before.status.claim_name, after.status
        if not name or status.claim_name or not is_about(status.reason, Code.REPLACING_WEDGED_CLAIM):
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
        node = self._caches.nodes.store.get(ObjectKey("", translate.claim_node(claim)))
        return None if node is None else translate.node(node)


class _Abandonments:
    """Tells what is remembered of refusals about abandonments that the workloads' cache shows."""

    def __init__(self, refused: RefusedTargets) -> None:
        self._refused = refused

    def on_add(self, obj: Workload, initial: bool, /) -> None:
        """What was abandoned before is not known any more."""

    def on_update(self, old: Workload, new: Workload, /) -> None:
        """A status changed."""
        self._refused.abandoned_elsewhere(old, new)

    def on_delete(self, obj: Workload, /) -> None:
        """The worker is gone."""
        self._refused.forget(obj.uid)


class UncountedWaits:
    """When a worker last waited for something that the placement timeout does not count."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._last: dict[str, datetime] = {}

    def __repr__(self) -> str:
        return f"<UncountedWaits workers={len(self._last)}>"

    def note(self, worker_uid: str) -> None:
        """It waits like that now."""
        self._last[worker_uid] = self._now()

    def last(self, worker_uid: str) -> datetime | None:
        """When it last did, if ever."""
        return self._last.get(worker_uid)

    def forget(self, worker_uid: str) -> None:
        """The worker is placed, or has ended."""
        self._last.pop(worker_uid, None)


@dataclass(frozen=True)
class Memory:
    """All that is remembered."""

    allocations: Allocations
    refused: RefusedTargets
    uncounted: UncountedWaits

    @classmethod
    def empty(
        cls,
        caches: Caches,
        namespace: str,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> Memory:
        """A process that has just started; it follows the claims' cache from here on.

        `now` is the wall clock, for what is compared with times of objects; `monotonic` counts holds, in
        seconds.
        """
        memory = cls(Allocations(now), RefusedTargets(caches, namespace, monotonic), UncountedWaits(now))
        caches.claims.add_handler(memory.allocations, inline=True)
        caches.workloads.add_handler(_Abandonments(memory.refused), inline=True)
        return memory

    def forget(self, worker_uid: str) -> None:
        """The worker is placed, or has ended."""
        self.refused.forget(worker_uid)
        self.uncounted.forget(worker_uid)
