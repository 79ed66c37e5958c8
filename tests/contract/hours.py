"""Settings and pauses for tests without retries: the retry interval is several hours."""

from __future__ import annotations

import anyio

from tests.contract.harness import settings_with

HOURS = settings_with(retry_interval_seconds=10 * 3600.0, placement_timeout_seconds=0.0)
SOON_SECONDS = 5.0


async def soon() -> None:
    """Wait until the controller has reacted to the last change."""
    await anyio.sleep(SOON_SECONDS)
