"""Back-off for workers whose Pod the API server or a kubelet refuses for now (quota, webhook, full node).

Each attempt books a seat, writes a status, and undoes both: without a back-off that survives wake-ups, a full
quota would turn every freed seat into a storm of writes. Loop time counts: a wall clock that is set back
would hold a worker for as long as that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FIRST_HOLD_SECONDS = 1.0
MAX_HOLD_SECONDS = 300.0


@dataclass(frozen=True)
class _Hold:
    count: int
    delay_seconds: float
    until_seconds: float


class Rejections:
    """Doubles the wait of a worker with each refusal, from a second to five minutes."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._holds: dict[str, _Hold] = {}

    def __repr__(self) -> str:
        return f"<Rejections held={len(self._holds)}>"

    def add(self, uid: str) -> float:
        """One more refusal; returns the seconds to wait from now on."""
        before = self._holds.get(uid)
        delay = min(FIRST_HOLD_SECONDS if before is None else before.delay_seconds * 2, MAX_HOLD_SECONDS)
        count = 1 if before is None else before.count + 1
        self._holds[uid] = _Hold(count, delay, self._monotonic() + delay)
        return delay

    def count(self, uid: str) -> int:
        """The refusals since the worker last ran."""
        held = self._holds.get(uid)
        return 0 if held is None else held.count

    def hold(self, uid: str) -> float:
        """The seconds that this worker still has to wait, 0 if none."""
        held = self._holds.get(uid)
        return 0.0 if held is None else max(0.0, held.until_seconds - self._monotonic())

    def forget(self, uid: str) -> None:
        """The Pod was accepted, or the worker has ended."""
        self._holds.pop(uid, None)

    def statistics(self) -> dict[str, int]:
        """How many workers are held back."""
        return {"held": len(self._holds)}
