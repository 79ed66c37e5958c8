"""Leadership: this process without an election, or the holder of the leader lease (contract §2.3, §7).

Leader election only saves work. All writes are conditional, so two active controllers stay correct.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

from controller.api.names import LEADER_LEASE
from controller.config.flags import Settings
from controller.config.nondeterminism import Nondeterminism
from informers.api import Api
from informers.leader.election import ElectionSettings, ElectionStatistics, LeaderElector

OVERDUE_TOLERANCE_SECONDS = 20.0
"""Time after the lease expires at which the liveness probe fails for a leader that still works."""


class Leadership:
    """The leadership of this process, which runs the leader's work."""

    def __init__(self, api: Api, settings: Settings, nondeterminism: Nondeterminism) -> None:
        self.elector: LeaderElector | None = None
        """`None` without leader election: this process then leads from the start."""
        self._leading = False
        if settings.leader_elect:
            self.elector = LeaderElector(
                api,
                name=LEADER_LEASE,
                namespace=settings.lease_namespace,
                host=settings.pod_name or socket.gethostname(),
                unique_suffix=nondeterminism.new_id,
                wall_clock=nondeterminism.now,
                rng=nondeterminism.rng,
                settings=ElectionSettings(
                    lease_seconds=settings.lease_duration_seconds,
                    renew_deadline_seconds=settings.renew_deadline_seconds,
                    retry_period_seconds=settings.retry_period_seconds,
                ),
            )

    @property
    def leading(self) -> bool:
        """Whether the leader's work is running."""
        return self._leading

    def statistics(self) -> ElectionStatistics:
        """Return the statistics of the election. Without one, all counters are 0."""
        if self.elector is not None:
            return self.elector.statistics()
        return ElectionStatistics(self._leading, 0, 0, 0)

    def may_write(self) -> bool:
        """Return whether a write is allowed. A leader with a late renewal may have lost its lease."""
        return self.elector is None or self.elector.may_write()

    def check(self) -> str | None:
        """Check liveness: fail if the work continues long after the lease expired."""
        if self.elector is None or self.elector.healthy(OVERDUE_TOLERANCE_SECONDS):
            return None
        return "the lease expired and the work continues"

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run `lead` while this process is the leader. Raises `LeadershipLost`."""

        async def work() -> None:
            self._leading = True
            try:
                await lead()
            finally:
                self._leading = False

        if self.elector is None:
            await work()
        else:
            await self.elector.run(work)
