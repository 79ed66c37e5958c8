"""The wall clock of a simulated cluster: a moment to begin with, plus the loop's time since."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


class WallClock:
    """Call it for the time of day; it may jump, as real ones do."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start

    def __repr__(self) -> str:
        return f"<WallClock start={self._start.isoformat()}>"

    def __call__(self) -> datetime:
        """The time of day, in UTC."""
        return self._start + timedelta(seconds=anyio.current_time())

    def jump(self, seconds: float) -> None:
        """Step on, or back if negative, without any loop time passing."""
        self._start += timedelta(seconds=seconds)
