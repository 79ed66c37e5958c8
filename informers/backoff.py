"""Growing, jittered pauses between attempts that fail.

The numbers are those of client-go's reflector: they keep a fleet of clients from returning in step to a
server that has just recovered. The clock and the randomness come from the caller, so that a sequence of
delays can be replayed; nothing here sleeps.

How long a failed key has to wait: its own back-off, and a bucket that all retries share.

The per-key back-off keeps one broken object from being tried in a loop; the bucket keeps many broken
objects from loading the API server together. Both answer with a delay and wait for nothing themselves.
They hold no clock either: the caller says what time it is, in seconds of any monotonic clock. The numbers
are client-go's defaults (`DefaultTypedControllerRateLimiter`); the jitter is ours, so that keys that failed
together do not come back together.

Fresh events are not their business: only retries are limited.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar


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


K = TypeVar("K", bound=Hashable)

BACKOFF_BASE_SECONDS = 0.005
BACKOFF_LIMIT_SECONDS = 1000.0
# A delay is shortened by up to this part of itself and never lengthened: the limit stays a limit.
BACKOFF_JITTER = 0.2

RETRIES_PER_SECOND = 10.0
RETRIES_BURST = 100


class ExponentialBackoff(Generic[K]):
    """Per key: base x 2^n seconds after failure n in a row (from 0), up to a limit, shortened by jitter.

    `_failures[key]` is the number of failures since the key was last forgotten, and at least 1: a key that
    does not fail takes no memory.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        base_seconds: float = BACKOFF_BASE_SECONDS,
        limit_seconds: float = BACKOFF_LIMIT_SECONDS,
        jitter: float = BACKOFF_JITTER,
    ) -> None:
        if not 0 < base_seconds <= limit_seconds:
            raise ValueError(
                f"back-off needs 0 < base <= limit, got {base_seconds:g} s and {limit_seconds:g} s"
            )
        if not 0 <= jitter < 1:
            raise ValueError(f"back-off jitter must be in [0, 1), got {jitter:g}")
        self._rng = rng
        self._base_seconds = base_seconds
        self._limit_seconds = limit_seconds
        self._jitter = jitter
        # 2^n is not computed beyond the n that reaches the limit: 10,000 failures must not overflow a float.
        self._doublings_max = math.ceil(math.log2(limit_seconds / base_seconds))
        self._failures: dict[K, int] = {}

    def __repr__(self) -> str:
        return (
            f"<ExponentialBackoff {self._base_seconds:g}-{self._limit_seconds:g}s keys={len(self._failures)}>"
        )

    def __len__(self) -> int:
        return len(self._failures)

    def fail(self, key: K) -> float:
        """Count a failure; returns the seconds to wait before the next try."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        seconds = min(self._base_seconds * 2.0 ** min(failures, self._doublings_max), self._limit_seconds)
        return seconds * (1 - self._jitter * self._rng.random())

    def forget(self, key: K) -> None:
        """Start over with this key; unknown keys are fine."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Failures since the key was last forgotten."""
        return self._failures.get(key, 0)


class TokenBucket:
    """`burst` at once, then `rate_per_second`. A token taken beyond the burst is one of the future.

    The whole state is one number: the time at which the bucket will be full again. Each token moves it on by
    one interval, and the bucket is overdrawn for as long as it lies more than a burst of intervals ahead.
    """

    def __init__(self, rate_per_second: float = RETRIES_PER_SECOND, burst: int = RETRIES_BURST) -> None:
        if rate_per_second <= 0 or burst < 1:
            raise ValueError(
                f"a bucket needs a rate > 0 and a burst >= 1, got {rate_per_second:g} and {burst}"
            )
        self._interval_seconds = 1 / rate_per_second
        self._burst_seconds = burst / rate_per_second
        self._full_at = -math.inf

    def __repr__(self) -> str:
        return f"<TokenBucket full at {self._full_at:g}>"

    def take(self, now: float) -> float:
        """Take one token; returns the seconds until it is there, 0 within the burst."""
        self._full_at = max(self._full_at, now) + self._interval_seconds
        return max(0.0, self._full_at - now - self._burst_seconds)


class RetryLimiter(Generic[K]):
    """The longer of the key's own back-off and the wait for a token of the shared bucket."""

    def __init__(self, backoff: ExponentialBackoff[K], bucket: TokenBucket) -> None:
        self._backoff = backoff
        self._bucket = bucket

    @classmethod
    def with_defaults(cls, rng: random.Random) -> RetryLimiter[K]:
        """The limiter that controllers normally use; `rng` is the source of its jitter."""
        return cls(ExponentialBackoff(rng), TokenBucket())

    def __repr__(self) -> str:
        return f"<RetryLimiter {self._backoff!r} {self._bucket!r}>"

    def fail(self, key: K, now: float) -> float:
        """Count a failure of `key`; returns the seconds to wait before the next try."""
        return max(self._backoff.fail(key), self._bucket.take(now))

    def forget(self, key: K) -> None:
        """Start over with this key."""
        self._backoff.forget(key)

    def failures(self, key: K) -> int:
        """Failures since the key was last forgotten."""
        return self._backoff.failures(key)

    @property
    def keys(self) -> int:
        """Number of keys that are remembered as failing."""
        return len(self._backoff)
