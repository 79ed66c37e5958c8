"""Growing, jittered pauses between attempts that fail.

The numbers are those of client-go's reflector: they keep a fleet of clients from returning in step to a
server that has just recovered. The clock and the randomness come from the caller, so that a sequence of
delays can be replayed; nothing here sleeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class BackoffPolicy:
    """How the pauses grow: base `initial_seconds`, times `factor` each time, at most `max_seconds`.

    Each pause is its base plus a random part of up to `jitter` times the base. A failure that comes
    `reset_seconds` or more after the end of the last pause starts again at the beginning.
    """

    initial_seconds: float = 0.8
    max_seconds: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0
    reset_seconds: float = 120.0

    def __post_init__(self) -> None:
        if not 0 < self.initial_seconds <= self.max_seconds or self.factor < 1 or self.jitter < 0:
            raise ValueError(f"pauses must be positive and must not shrink: {self}")


class Backoff:
    """The pauses of one thing that is tried again and again."""

    def __init__(self, rng: Random, policy: BackoffPolicy = BackoffPolicy()) -> None:
        self._rng = rng
        self._policy = policy
        self._base_seconds = policy.initial_seconds
        self._paused_until = float("-inf")

    def __repr__(self) -> str:
        return f"<Backoff base={self._base_seconds:g}s max={self._policy.max_seconds:g}s>"

    def next_seconds(self, now_seconds: float, *, at_least_seconds: float = 0.0) -> float:
        """The pause after a failure at `now_seconds`, but no less than `at_least_seconds` (a Retry-After)."""
        policy = self._policy
        if now_seconds - self._paused_until >= policy.reset_seconds:
            self._base_seconds = policy.initial_seconds
        base = self._base_seconds
        self._base_seconds = min(base * policy.factor, policy.max_seconds)
        pause = max(base * (1 + policy.jitter * self._rng.random()), at_least_seconds)
        self._paused_until = now_seconds + pause
        return pause
