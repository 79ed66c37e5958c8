"""Settings and pauses for tests in which nothing is a retry: the retry interval is hours."""

from __future__ import annotations

import anyio

from tests.contract.harness import settings_with

HOURS = settings_with(retry_interval_seconds=10 * 3600.0, placement_timeout_seconds=0.0)
SOON_SECONDS = 5.0


async def soon() -> None:
    """Let what was just done be heard of and acted on."""
    await anyio.sleep(SOON_SECONDS)
