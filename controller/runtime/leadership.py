"""Who leads: this process alone, or the holder of the leader lease (contract §2.3, contract §7).

Leader election only saves work: every write is conditional, so that two controllers at once stay correct.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Awaitable, Callable

from controller.api.names import LEADER_LEASE
from controller.config.nondeterminism import Nondeterminism
from controller.config.settings import Settings
from informers.api import Api
from informers.leader.election import ElectionSettings, ElectionStatistics, LeaderElector

OVERDUE_TOLERANCE_SECONDS = 20.0
"""How long a leader may go on after its lease ran out before the liveness probe ends it."""


class Leadership:
    """Runs the work of a leader while this process is one."""

    def __init__(self, api: Api, settings: Settings, nondeterminism: Nondeterminism) -> None:
        self.elector: LeaderElector | None = None
        """`None` without leader election: then this process leads from the start."""
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

    def __repr__(self) -> str:
        return f"<Leadership leading={self._leading} elector={self.elector!r}>"

    @property
    def leading(self) -> bool:
        """Whether the leader's work runs now."""
        return self._leading

    def statistics(self) -> ElectionStatistics:
        """Return the statistics of the election; without one, all counts are 0."""
        if self.elector is not None:
            return self.elector.statistics()
        return ElectionStatistics(
            identity="",
            holder="",
            leading=self._leading,
            terms_total=0,
            slowpath_total=0,
            failed_attempts_total=0,
            seconds_since_renewal=math.inf,
        )

    def may_write(self) -> bool:
        """Whether a write may be sent now: a leader whose renewal is late has perhaps lost its lease."""
        return self.elector is None or self.elector.may_write()

    def check(self) -> str | None:
        """A liveness check: fails where the work goes on long after the lease ran out."""
        if self.elector is None or self.elector.healthy(OVERDUE_TOLERANCE_SECONDS):
            return None
        return "the lease ran out and the work goes on"

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Lead when it is our turn; returns when `lead` has returned. Raises `LeadershipLost`."""

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
