"""What a contender spends between two moments: CPU time, its own and the control plane's, and requests.

Several spans add up, so that a scenario can leave out what it does between operations. A span ends once
the contender is quiet: what it still does about the last operation counts.
"""

from __future__ import annotations

import anyio

from bench import procfs
from bench.audit_requests import added, is_upkeep, tally
from bench.contender import ContenderProcess
from bench.errors import NeverHappened
from e2e.controlplane import CONTROLLER_USER, Cluster
from e2e.controlplane.local import COMPONENTS

QUIET_SECONDS = 0.25
"""How long nothing is sent before a contender counts as quiet."""

SETTLED_SECONDS = 2.0
"""The same where Events count: a recorder that paces itself sends them one by one."""

POLL_SECONDS = 0.05
QUIET_TIMEOUT_SECONDS = 60
SETTLE_TIMEOUT_SECONDS = 600
"""A recorder that paces itself may hold Events of hundreds of workers."""


class Meter:
    """Sums up the spans of one contender."""

    def __init__(self, process: ContenderProcess, cluster: Cluster) -> None:
        self._process = process
        self._cluster = cluster
        self._audit = cluster.audit
        self.cpu_seconds = 0.0
        self.cpu_wait_seconds = 0.0
        self.plane_cpu_seconds = dict.fromkeys(COMPONENTS, 0.0)
        """By component: what the contender makes others do."""
        self.requests: dict[str, int] = {}
        self.events = 0
        self._mark = 0
        self._cpu_start_seconds = 0.0
        self._cpu_wait_start_seconds = 0.0
        self._plane_start_seconds: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<Meter cpu={self.cpu_seconds:.2f} s requests={sum(self.requests.values())}>"

    def begin(self) -> None:
        """Begin a span."""
        self._mark = self._audit.mark()
        self._cpu_start_seconds = self._process.cpu_seconds()
        self._cpu_wait_start_seconds = self._process.cpu_wait_seconds()
        self._plane_start_seconds = self._plane_cpu_seconds()

    async def end(self) -> None:
        """End the span, once the contender is quiet."""
        await self.quiet()
        self.end_now()

    def end_now(self) -> None:
        """End the span here and now."""
        self.cpu_seconds += self._process.cpu_seconds() - self._cpu_start_seconds
        self.cpu_wait_seconds += self._process.cpu_wait_seconds() - self._cpu_wait_start_seconds
        for name, seconds in self._plane_cpu_seconds().items():
            self.plane_cpu_seconds[name] += seconds - self._plane_start_seconds[name]
        requests, events = tally(self._audit.requests(since=self._mark, user=CONTROLLER_USER))
        self.requests = added(self.requests, requests)
        self.events += events

    async def quiet(self) -> None:
        """Return once the contender has sent nothing but upkeep and Events for a while.

        Events may be sent long after the work that they tell of. Raises `NeverHappened`.
        """
        await self._until_silent(QUIET_SECONDS, with_events=False, timeout_seconds=QUIET_TIMEOUT_SECONDS)

    async def settle(self) -> None:
        """Return once not even Events are left to send. Raises `NeverHappened`."""
        await self._until_silent(SETTLED_SECONDS, with_events=True, timeout_seconds=SETTLE_TIMEOUT_SECONDS)

    async def _until_silent(self, seconds: float, *, with_events: bool, timeout_seconds: float) -> None:
        with anyio.move_on_after(timeout_seconds):
            mark = self._audit.mark()
            silent_since = anyio.current_time()
            while anyio.current_time() - silent_since < seconds:
                await anyio.sleep(POLL_SECONDS)
                # The mark first: what is written while the log is read is read again next time.
                start, mark = mark, self._audit.mark()
                requests, events = tally(self._audit.requests(since=start, user=CONTROLLER_USER))
                if any(not is_upkeep(call) for call in requests) or (with_events and events):
                    silent_since = anyio.current_time()
            return
        raise NeverHappened(f"{self._process.contender}: not quiet within {timeout_seconds:g} s")

    def _plane_cpu_seconds(self) -> dict[str, float]:
        pids = {name: self._cluster.component(name).pid for name in COMPONENTS}
        return {name: procfs.cpu_seconds(pid) for name, pid in pids.items() if pid is not None}
