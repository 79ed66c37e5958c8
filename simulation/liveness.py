"""After the faults have stopped: does everything come to rest in time, and stay there?

Rest is: no write of anything but leases and Events for `QUIET_SECONDS`, and nothing that `at_rest` objects to.
It has to be reached within `BOUND_SECONDS`, which is the longest back-off of the contract (30 minutes) plus
kube-scheduler's own five, the sweep's twelve, and the placement time-out. Then nothing may be written any more,
not even when every cache has to be read again.
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from simulation.apiserver.kinds import EVENTS, LEASES
from simulation.apiserver.store import Change
from simulation.cluster import SimulatedCluster
from simulation.invariants import at_rest

LOOK_SECONDS = 20.0
QUIET_SECONDS = 90.0
BOUND_SECONDS = 60 * 60.0
REST_SECONDS = 11 * 60.0
"""How long the rest is watched: longer than the sweep's interval."""

RELIST_SECONDS = 90.0


@dataclass
class LastWrite:
    """The last write of anything but leases and Events."""

    seconds: float = 0.0
    change: Change | None = None

    def __call__(self, change: Change) -> None:
        """A write was made."""
        if change.kind is not LEASES and change.kind is not EVENTS:
            self.seconds, self.change = anyio.current_time(), change


class Liveness:
    """Looks at one cluster from its beginning on."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._last = LastWrite()
        cluster.server.store.subscribe(self._last)

    def __repr__(self) -> str:
        return f"<Liveness last_write={self._last.seconds:.1f}>"

    async def converge(self, *, limit: int, timeout_seconds: float) -> list[str]:
        """Wait for rest; returns what is still wrong when the bound is over."""
        began = anyio.current_time()
        bound_seconds = began + BOUND_SECONDS + timeout_seconds
        while True:
            await anyio.sleep(LOOK_SECONDS)
            now = anyio.current_time()
            quiet = now - max(self._last.seconds, began) >= QUIET_SECONDS
            if quiet and not self._waits_for_timeout(timeout_seconds) and not self._wrong(limit):
                return []
            if now > bound_seconds:
                wrong = self._wrong(limit)
                if not quiet:
                    wrong.append(f"still being written to: {self._last.change}")
                return [f"not at rest {now - began:.0f} s after the faults: {text}" for text in wrong]

    async def stay(self) -> list[str]:
        """Watch the rest, then make every cache list again; returns what was written meanwhile."""
        wrong = await self._quiet_for(REST_SECONDS, "at rest")
        store = self._cluster.server.store
        store.compact()
        for watch in self._cluster.watches.matching():
            watch.cut()
        return wrong + await self._quiet_for(RELIST_SECONDS, "after every cache was listed again")

    async def _quiet_for(self, seconds: float, when: str) -> list[str]:
        revision = self._cluster.server.store.revision
        await anyio.sleep(seconds)
        written = [
            change
            for change in self._cluster.server.store.changes_after(revision)
            if change.kind is not LEASES and change.kind is not EVENTS
        ]
        return [f"written {when}: {change}" for change in written[:5]]

    def _wrong(self, limit: int) -> list[str]:
        return at_rest(self._cluster, limit=limit)

    def _waits_for_timeout(self, timeout_seconds: float) -> bool:
        """Whether the time-out of a waiting worker is still to come."""
        if not timeout_seconds:
            return False
        return any(status.get("phase") in {None, "Pending"} for status in self._cluster.openrl.statuses().values())
