"""Who leads: this process alone, or the holder of the lease.

Leader election only saves work: every write is conditional, so that two controllers at once stay correct.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from controller.chance import Chance
from controller.settings import Settings
from informers.api import Api


class Leadership:
    """Runs the work of a leader while this process is one."""

    def __init__(self, api: Api, settings: Settings, chance: Chance) -> None:
        self._api = api
        self._leading = anyio.Event()

    @property
    def leading(self) -> bool:
        """Whether the work runs now."""
        return self._leading.is_set()

    def check(self) -> str | None:
        """A liveness check."""
        return None

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Lead as soon as it is our turn; returns when `lead` does."""
        self._leading.set()
        await lead()
