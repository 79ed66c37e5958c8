"""After the faults have stopped, the cluster must come to rest in time and stay at rest (contract §8.10).

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
from simulation.cluster.simulated_cluster import SimulatedCluster

POLL_SECONDS = 20.0
QUIET_SECONDS = 90.0
BOUND_SECONDS = 60 * 60.0
UNSETTLED_SECONDS = 400.0
"""How long a worker may be unsettled without a write: more than the longest hold after a rejection."""

REST_SECONDS = 11 * 60.0
"""How long the cluster must stay at rest: longer than the sweep's interval."""

RELIST_SECONDS = 90.0

CLOCK_JUMP_SECONDS = 15 * 60.0
"""Additional time where a wall clock jumped, because a placement timeout may then expire at any time."""


class Liveness:
    """Checks that one cluster comes to rest after the faults (contract §8.10)."""

    def __init__(self, cluster: SimulatedCluster, network: Network, *, clocks_agree: bool) -> None:
        self._cluster = cluster
        self._network = network
        # Where wall clocks jump, the times in a status are hours early or late.
        self._clocks_agree = clocks_agree

    def __repr__(self) -> str:
        return f"<Liveness last_write={self._network.last_write_seconds:.1f}>"

    async def check_convergence(self, *, limit: int, timeout_seconds: float) -> list[str]:
        """Wait until the cluster is at rest; return the remaining violations if the bound expires."""
        began = anyio.current_time()
        bound_seconds = began + BOUND_SECONDS + timeout_seconds
        clock_jump_seconds = 0.0 if self._clocks_agree else CLOCK_JUMP_SECONDS
        while True:
            await anyio.sleep(POLL_SECONDS)
            now = anyio.current_time()
            quiet_seconds = now - max(self._network.last_write_seconds, began)
            quiet = quiet_seconds >= QUIET_SECONDS
            waiting = self._waiting() if timeout_seconds else []
            if quiet and not waiting and not self._violations_now(limit):
                unsettled = self._unsettled()
                if not unsettled or quiet_seconds > UNSETTLED_SECONDS:
                    return [f"{text} without a write for {quiet_seconds:.0f} s" for text in unsettled]
            if now > bound_seconds and (quiet or now > bound_seconds + clock_jump_seconds):
                violations = self._violations_now(limit)
                if self._clocks_agree:
                    violations += [f"{name} waits beyond the placement timeout" for name in waiting]
                if not quiet:
                    violations.append(f"writes continue: {self._network.last_write}")
                return [
                    f"not at rest {now - began:.0f} s after faults stopped: {text}" for text in violations
                ]

    async def check_rest(self, retries: Callable[[], int], *, timeout_seconds: float) -> list[str]:
        """Check that nothing is written or retried at rest, and then while every cache relists.

        Skipped where a wall clock jumped and a placement timeout is pending, as it may expire at any time.
        """
        if timeout_seconds and not self._clocks_agree and self._waiting():
            return []
        before = retries()
        violations = await self._check_quiet(REST_SECONDS, "at rest")
        if retries() != before:
            violations.append(f"{retries() - before} reconciles failed at rest")
        store = self._cluster.server.store
        store.compact()
        for watch in self._cluster.watches.matching():
            watch.cut()
        return violations + await self._check_quiet(RELIST_SECONDS, "while every cache relisted")

    async def _check_quiet(self, seconds: float, when: str) -> list[str]:
        began = anyio.current_time()
        await anyio.sleep(seconds)
        if self._network.last_write_seconds < began:
            return []
        return [f"write {when}: {self._network.last_write}"]

    def _violations_now(self, limit: int) -> list[str]:
        return violations_at_rest(self._cluster, limit=limit, lowered=True)

    def _unsettled(self) -> list[str]:
        """Return the workers outside of a settled phase; a back-off may keep one there for a while."""
        phases = {name: status.get("phase") for name, status in self._cluster.workloads.statuses().items()}
        return [
            f"Workload {name} stays {f'in phase {phase}' if phase else 'without a phase'}"
            for name, phase in phases.items()
            if phase not in SETTLED
        ]

    def _waiting(self) -> list[str]:
        """Return the waiting workers, whose placement timeout is pending."""
        statuses = self._cluster.workloads.statuses()
        return [name for name, status in statuses.items() if status.get("phase") in {None, "Pending"}]
