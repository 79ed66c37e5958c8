"""The wall clock of a simulated cluster: a start time plus the loop's elapsed time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


class WallClock:
    """A callable that returns the time of day. It can jump, as real wall clocks do."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start

    def __repr__(self) -> str:
        return f"<WallClock start={self._start.isoformat()}>"

    def __call__(self) -> datetime:
        """Return the time of day, in UTC."""
        return self._start + timedelta(seconds=anyio.current_time())

    def jump(self, seconds: float) -> None:
        """Move the clock forward, or back if negative; no loop time passes."""
        self._start += timedelta(seconds=seconds)
