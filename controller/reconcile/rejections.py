"""Back-off for workers whose Pod the API server refuses for now (403: quota, Pod security, a webhook).

Each attempt books a seat, writes a status, and undoes both: without a back-off that survives wake-ups, a full
quota would turn every freed seat into a storm of writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

MAX_HOLD_SECONDS = 300.0


@dataclass(frozen=True)
class _Hold:
    delay_seconds: float
    until: datetime


class Rejections:
    """Doubles the wait of a worker with each refusal, from the retry interval to five minutes."""

    def __init__(self, first_seconds: float, now: Callable[[], datetime]) -> None:
        self._first_seconds = first_seconds
        self._now = now
        self._holds: dict[str, _Hold] = {}

    def __repr__(self) -> str:
        return f"<Rejections held={len(self._holds)}>"

    def add(self, uid: str) -> float:
        """One more refusal; returns the seconds to wait from now on."""
        before = self._holds.get(uid)
        delay = min(self._first_seconds if before is None else before.delay_seconds * 2, MAX_HOLD_SECONDS)
        self._holds[uid] = _Hold(delay, self._now() + timedelta(seconds=delay))
        return delay

    def hold(self, uid: str) -> float:
        """The seconds that this worker still has to wait, 0 if none."""
        held = self._holds.get(uid)
        return 0.0 if held is None else max(0.0, (held.until - self._now()).total_seconds())

    def forget(self, uid: str) -> None:
        """The Pod was accepted, or the worker has ended."""
        self._holds.pop(uid, None)

    def statistics(self) -> dict[str, int]:
        """How many workers are held back."""
        return {"held": len(self._holds)}
