"""Back-off of one key and the bucket shared by all retries."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.backoff import ExponentialBackoff, RetryLimiter, TokenBucket


def backoff(*, jitter: float = 0.0) -> ExponentialBackoff[str]:
    return ExponentialBackoff(random.Random(1), jitter=jitter)


def test_Q8_delay_doubles_from_5_ms_to_1000_s() -> None:
    limiter = backoff()
    delays = [limiter.fail("a") for _ in range(20)]
    assert delays[:4] == pytest.approx([0.005, 0.01, 0.02, 0.04])
    assert delays[17] == pytest.approx(655.36)
    assert delays[18:] == [1000.0, 1000.0]


def test_Q8_ten_thousand_failures_do_not_overflow() -> None:
    limiter = backoff()
    assert [limiter.fail("a") for _ in range(10_001)][-1] == 1000.0
    assert limiter.failures("a") == 10_001


def test_Q8_failures_are_counted_per_key_and_forget_resets_them() -> None:
    limiter = backoff()
    for _ in range(5):
        limiter.fail("a")
    assert limiter.fail("b") == 0.005
    limiter.forget("a")
    limiter.forget("never seen")
    assert limiter.fail("a") == 0.005


def test_Q8_jitter_spreads_and_never_exceeds_the_nominal_delay() -> None:
    limiter = backoff(jitter=0.2)
    delays = [limiter.fail(f"key-{number}") for number in range(1000)]
    assert all(0.004 < delay <= 0.005 for delay in delays)
    assert len(set(delays)) == 1000


def test_Q8_jitter_comes_only_from_the_injected_source() -> None:
    first, second = (backoff(jitter=0.2) for _ in range(2))
    assert [first.fail("a") for _ in range(30)] == [second.fail("a") for _ in range(30)]


def test_Q16_a_forgotten_key_takes_no_memory() -> None:
    limiter = backoff()
    for number in range(1000):
        limiter.fail(str(number))
        limiter.forget(str(number))
    assert len(limiter._failures) == 0


@pytest.mark.parametrize(("base", "limit", "jitter"), [(0, 1, 0), (2, 1, 0), (1, 2, 1), (1, 2, -0.1)])
def test_invalid_backoff_settings_are_rejected(base: float, limit: float, jitter: float) -> None:
    with pytest.raises(ValueError, match="back-off"):
        ExponentialBackoff(random.Random(1), base_seconds=base, limit_seconds=limit, jitter=jitter)


def test_Q9_the_bucket_grants_the_burst_at_once_then_the_rate() -> None:
    bucket = TokenBucket(rate_per_second=10, burst=100)
    delays = [bucket.take(now=5.0) for _ in range(103)]
    assert delays[:100] == pytest.approx([0.0] * 100, abs=1e-9)
    assert delays[100:] == pytest.approx([0.1, 0.2, 0.3])


def test_Q9_the_bucket_refills_up_to_the_burst() -> None:
    bucket = TokenBucket(rate_per_second=10, burst=2)
    assert [bucket.take(now=0.0) for _ in range(3)] == pytest.approx([0, 0, 0.1])
    assert [bucket.take(now=1000.0) for _ in range(3)] == pytest.approx([0, 0, 0.1])


@given(st.lists(st.floats(min_value=0, max_value=5), max_size=200))
def test_Q9_no_time_window_exceeds_burst_plus_rate(pauses: list[float]) -> None:
    bucket, now, granted = TokenBucket(rate_per_second=10, burst=5), 0.0, []
    for pause in pauses:
        now += pause
        granted.append(now + bucket.take(now))
    for start, first in enumerate(granted):
        for end in range(start, len(granted)):
            assert end - start + 1 <= 5 + 10 * (granted[end] - first) + 1e-6


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_invalid_bucket_settings_are_rejected(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="bucket"):
        TokenBucket(rate, burst)


def test_Q9_the_longer_of_backoff_and_bucket_applies() -> None:
    limiter = RetryLimiter(backoff(), TokenBucket(rate_per_second=1, burst=1))
    assert limiter.fail("a", now=0.0) == 0.005
    assert limiter.fail("b", now=0.0) == pytest.approx(1.0)
    for _ in range(15):
        limiter.fail("a", now=1000.0)
    assert limiter.fail("a", now=2000.0) == pytest.approx(327.68)
    assert len(limiter.backoff._failures) == 2
    limiter.backoff.forget("b")
    failures = limiter.backoff.failures
    assert (len(limiter.backoff._failures), failures("a"), failures("b")) == (1, 17, 0)
