"""Delays between retries: per watch, per key, and across all keys.

`Backoff` serves one long-lived loop (a reflector). `RetryLimiter` serves a work queue. Its back-off per key
keeps one broken object from being retried in a loop. Its shared token bucket keeps many broken objects from
overloading the API server. Only retries are limited, never new events.

Defaults are client-go's (its reflector, and `DefaultTypedControllerRateLimiter`). Jitter keeps clients and
keys that failed together from retrying together. Nothing here sleeps or reads a clock: callers pass the time
in seconds of any monotonic clock, and the random source, so that a sequence of delays can be replayed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from random import Random
from typing import Generic, TypeVar

RECONNECT_BASE_SECONDS = 0.8
RECONNECT_LIMIT_SECONDS = 30.0
# A reconnect delay is its base plus a random part of up to the base.
RECONNECT_RESET_SECONDS = 120.0


class Backoff:
    """Doubling delays of one operation that is retried indefinitely, such as a watch.

    A failure `RECONNECT_RESET_SECONDS` or more after the end of the last delay resets the base.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._base_seconds = RECONNECT_BASE_SECONDS
        self._delayed_until = -math.inf

    def next_seconds(self, now_seconds: float, *, at_least_seconds: float = 0.0) -> float:
        """Return the delay after a failure at `now_seconds`, at least `at_least_seconds` (a Retry-After)."""
        if now_seconds - self._delayed_until >= RECONNECT_RESET_SECONDS:
            self._base_seconds = RECONNECT_BASE_SECONDS
        base = self._base_seconds
        self._base_seconds = min(2 * base, RECONNECT_LIMIT_SECONDS)
        delay_seconds = max(base * (1 + self._rng.random()), at_least_seconds)
        self._delayed_until = now_seconds + delay_seconds
        return delay_seconds


K = TypeVar("K", bound=Hashable)

BACKOFF_BASE_SECONDS = 0.005
BACKOFF_LIMIT_SECONDS = 1000.0
# Jitter shortens a delay by up to this fraction and never lengthens it: the limit stays a limit.
BACKOFF_JITTER = 0.2

RETRIES_PER_SECOND = 10.0
RETRIES_BURST = 100


class ExponentialBackoff(Generic[K]):
    """Delays per key that double with each failure in a row, up to a limit, and are shortened by jitter.

    `_failures[key]` counts the failures since the key was last forgotten, at least 1: a key that does not
    fail takes no memory.
    """

    def __init__(
        self,
        rng: Random,
        *,
        base_seconds: float = BACKOFF_BASE_SECONDS,
        limit_seconds: float = BACKOFF_LIMIT_SECONDS,
        jitter: float = BACKOFF_JITTER,
    ) -> None:
        if not 0 < base_seconds <= limit_seconds:
            raise ValueError(f"back-off needs 0 < base <= limit, got {base_seconds:g} and {limit_seconds:g}")
        if not 0 <= jitter < 1:
            raise ValueError(f"back-off jitter must be in [0, 1), got {jitter:g}")
        self._rng = rng
        self._base_seconds = base_seconds
        self._limit_seconds = limit_seconds
        self._jitter = jitter
        # 2^n is not computed beyond the n that reaches the limit: 10,000 failures must not overflow a float.
        self._doublings_max = math.ceil(math.log2(limit_seconds / base_seconds))
        self._failures: dict[K, int] = {}

    def fail(self, key: K) -> float:
        """Count a failure and return the delay in seconds before the next attempt."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        seconds = min(self._base_seconds * 2.0 ** min(failures, self._doublings_max), self._limit_seconds)
        return seconds * (1 - self._jitter * self._rng.random())

    def forget(self, key: K) -> None:
        """Reset the key; unknown keys are accepted."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return the number of failures since the key was last forgotten."""
        return self._failures.get(key, 0)


class TokenBucket:
    """A rate limit of `rate_per_second` with `burst`. Beyond the burst, callers wait for later tokens.

    The whole state is one number: the time at which the bucket will be full again. Each token advances it by
    one interval. The bucket is overdrawn while that time is more than a burst of intervals ahead.
    """

    def __init__(self, rate_per_second: float = RETRIES_PER_SECOND, burst: int = RETRIES_BURST) -> None:
        if rate_per_second <= 0 or burst < 1:
            raise ValueError(f"bucket needs rate > 0 and burst >= 1, got {rate_per_second:g} and {burst}")
        self._interval_seconds = 1 / rate_per_second
        self._burst_seconds = burst / rate_per_second
        self._full_at = -math.inf

    def take(self, now: float) -> float:
        """Take one token and return the seconds until it is available, 0 within the burst."""
        self._full_at = max(self._full_at, now) + self._interval_seconds
        return max(0.0, self._full_at - now - self._burst_seconds)


class RetryLimiter(Generic[K]):
    """The longer of the key's own back-off and the wait for a token of the shared bucket."""

    def __init__(self, backoff: ExponentialBackoff[K], bucket: TokenBucket) -> None:
        self.backoff = backoff
        self._bucket = bucket

    @classmethod
    def with_defaults(cls, rng: Random) -> RetryLimiter[K]:
        """Return a limiter with client-go's defaults; `rng` is the source of its jitter."""
        return cls(ExponentialBackoff(rng), TokenBucket())

    def fail(self, key: K, now: float) -> float:
        """Count a failure of `key` and return the delay in seconds before the next attempt."""
        return max(self.backoff.fail(key), self._bucket.take(now))
