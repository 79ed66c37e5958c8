"""The resources that a contender uses between two points in time: its CPU time, the control plane's, and
requests.

Several spans add up, so that a scenario can exclude its work between operations. A span ends once the
contender is quiet, so that remaining work for the last operation counts.
"""

from __future__ import annotations

import anyio

from bench import procfs
from bench.audit_requests import count_requests, is_upkeep, sum_calls
from bench.contender import ContenderProcess
from bench.errors import NeverHappened
from e2e.controlplane import CONTROLLER_USER, Cluster
from e2e.controlplane.local import COMPONENTS

QUIET_SECONDS = 0.25
"""Time without requests after which a contender counts as quiet."""

SETTLED_SECONDS = 2.0
"""The same if Events count: a rate-limited recorder sends them one by one."""

POLL_SECONDS = 0.05
QUIET_TIMEOUT_SECONDS = 60
SETTLE_TIMEOUT_SECONDS = 600
"""A rate-limited recorder may have queued Events of hundreds of workers."""


class Meter:
    """The sums over all spans of one contender."""

    def __init__(self, process: ContenderProcess, cluster: Cluster) -> None:
        self._process = process
        self._cluster = cluster
        self._audit = cluster.audit
        self.cpu_seconds = 0.0
        self.cpu_wait_seconds = 0.0
        self.plane_cpu_seconds = dict.fromkeys(COMPONENTS, 0.0)
        """CPU time of each control-plane component."""
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
        """Wait until the contender is quiet, then end the span."""
        await self.quiet()
        self.end_now()

    def end_now(self) -> None:
        """End the span immediately."""
        self.cpu_seconds += self._process.cpu_seconds() - self._cpu_start_seconds
        self.cpu_wait_seconds += self._process.cpu_wait_seconds() - self._cpu_wait_start_seconds
        for name, seconds in self._plane_cpu_seconds().items():
            self.plane_cpu_seconds[name] += seconds - self._plane_start_seconds[name]
        requests, events = count_requests(self._audit.requests(since=self._mark, user=CONTROLLER_USER))
        self.requests = sum_calls(self.requests, requests)
        self.events += events

    async def quiet(self) -> None:
        """Wait until the contender has sent only upkeep and Events for a while.

        Events may follow long after the work that they report. Raises `NeverHappened`.
        """
        await self._until_silent(QUIET_SECONDS, with_events=False, timeout_seconds=QUIET_TIMEOUT_SECONDS)

    async def settle(self) -> None:
        """Wait until the contender has sent all Events too. Raises `NeverHappened`."""
        await self._until_silent(SETTLED_SECONDS, with_events=True, timeout_seconds=SETTLE_TIMEOUT_SECONDS)

    async def _until_silent(self, seconds: float, *, with_events: bool, timeout_seconds: float) -> None:
        with anyio.move_on_after(timeout_seconds):
            mark = self._audit.mark()
            silent_since = anyio.current_time()
            while anyio.current_time() - silent_since < seconds:
                await anyio.sleep(POLL_SECONDS)
                # Set the mark first: entries written during the read are read again next time.
                start, mark = mark, self._audit.mark()
                requests, events = count_requests(self._audit.requests(since=start, user=CONTROLLER_USER))
                if any(not is_upkeep(call) for call in requests) or (with_events and events):
                    silent_since = anyio.current_time()
            return
        raise NeverHappened(f"{self._process.contender}: not quiet within {timeout_seconds:g} s")

    def _plane_cpu_seconds(self) -> dict[str, float]:
        pids = {name: self._cluster.component(name).pid for name in COMPONENTS}
        return {name: procfs.cpu_seconds(pid) for name, pid in pids.items() if pid is not None}
