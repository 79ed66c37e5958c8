"""After the faults have stopped, the cluster must come to rest in time and stay at rest.

At rest, no controller writes anything but leases and Events for `QUIET_SECONDS`, and `violations_at_rest`
finds nothing. The bound for this is `BOUND_SECONDS` plus the placement timeout. The bound exceeds the sum of
the longest back-off in the contract (30 minutes), kube-scheduler's own five minutes, and the sweep's twelve.
After that no write is allowed, not even after every cache has been listed again.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from simulation.checks.end_state import SETTLED
from simulation.checks.invariants import violations_at_rest
from simulation.cluster.network import Network
from simulation.cluster.simulated import SimulatedCluster

LOOK_SECONDS = 20.0
QUIET_SECONDS = 90.0
BOUND_SECONDS = 60 * 60.0
ON_THE_WAY_SECONDS = 400.0
"""How long a worker may be on its way, with nothing written: more than the longest hold after a refusal."""

REST_SECONDS = 11 * 60.0
"""How long the rest is watched: longer than the sweep's interval."""

RELIST_SECONDS = 90.0

JUMPED_SECONDS = 15 * 60.0
"""How much longer rest may take where a wall clock has jumped: a time-out may fall on any moment there."""


class Liveness:
    """Looks at one cluster from its beginning on."""

    def __init__(self, cluster: SimulatedCluster, network: Network, *, clocks_agree: bool) -> None:
        self._cluster = cluster
        self._network = network
        # Where wall clocks jump, what the status says of the time is hours early or late.
        self._clocks_agree = clocks_agree

    def __repr__(self) -> str:
        return f"<Liveness last_write={self._network.last_write_seconds:.1f}>"

    async def converge(self, *, limit: int, timeout_seconds: float) -> list[str]:
        """Wait for rest; returns what is still wrong when the bound is over."""
        began = anyio.current_time()
        bound_seconds = began + BOUND_SECONDS + timeout_seconds
        late_seconds = 0.0 if self._clocks_agree else JUMPED_SECONDS
        while True:
            await anyio.sleep(LOOK_SECONDS)
            now = anyio.current_time()
            quiet_seconds = now - max(self._network.last_write_seconds, began)
            quiet = quiet_seconds >= QUIET_SECONDS
            waiting = self._waiting() if timeout_seconds else []
            if quiet and not waiting and not self._wrong(limit):
                late = self._on_their_way()
                if not late or quiet_seconds > ON_THE_WAY_SECONDS:
                    return [f"{text}, and for {quiet_seconds:.0f} s nothing was written" for text in late]
            if now > bound_seconds and (quiet or now > bound_seconds + late_seconds):
                wrong = self._wrong(limit)
                if self._clocks_agree:
                    wrong += [f"{name} waits past the placement time-out" for name in waiting]
                if not quiet:
                    wrong.append(f"still being written to: {self._network.last_write}")
                return [f"not at rest {now - began:.0f} s after the faults: {text}" for text in wrong]

    async def stay(self, retries: Callable[[], int], *, timeout_seconds: float) -> list[str]:
        """Watch the rest, then make every cache list again; returns what was written or retried meanwhile.

        Not where a wall clock has jumped and a time-out is still to come: it may come at any moment.
        """
        if timeout_seconds and not self._clocks_agree and self._waiting():
            return []
        before = retries()
        wrong = await self._quiet_for(REST_SECONDS, "at rest")
        if retries() != before:
            wrong.append(f"{retries() - before} reconciles failed at rest")
        store = self._cluster.server.store
        store.compact()
        for watch in self._cluster.watches.matching():
            watch.cut()
        return wrong + await self._quiet_for(RELIST_SECONDS, "after every cache was listed again")

    async def _quiet_for(self, seconds: float, when: str) -> list[str]:
        began = anyio.current_time()
        await anyio.sleep(seconds)
        if self._network.last_write_seconds < began:
            return []
        return [f"written {when}: {self._network.last_write}"]

    def _wrong(self, limit: int) -> list[str]:
        return violations_at_rest(self._cluster, limit=limit, lowered=True)

    def _on_their_way(self) -> list[str]:
        """The workers that neither wait nor run nor have ended: one may be in a back-off, for a while."""
        phases = {name: status.get("phase") for name, status in self._cluster.workloads.statuses().items()}
        return [
            f"Workload {name} is {phase or 'without a phase'}"
            for name, phase in phases.items()
            if phase not in SETTLED
        ]

    def _waiting(self) -> list[str]:
        """The workers that wait, and whose time-out is still to come."""
        statuses = self._cluster.workloads.statuses()
        return [name for name, status in statuses.items() if status.get("phase") in {None, "Pending"}]
