"""The delays between attempts. Test names contain checklist IDs."""

from random import Random

import pytest

from informers.backoff import Backoff


class Constant(Random):
    """A random source that always returns the same value."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def random(self) -> float:
        return self.value


def delays(backoff: Backoff, count: int) -> list[float]:
    """Delays of failures that follow each other immediately."""
    now_seconds, found = 0.0, []
    for _ in range(count):
        found.append(backoff.next_seconds(now_seconds))
        now_seconds += found[-1]
    return found


def test_l13_the_base_doubles_from_0_8_s_to_30_s() -> None:
    assert delays(Backoff(Constant(0)), 8) == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])


def test_l13_jitter_adds_up_to_the_base() -> None:
    assert delays(Backoff(Constant(0.5)), 3) == pytest.approx([1.2, 2.4, 4.8])
    spread = {round(Backoff(Random(seed)).next_seconds(0), 3) for seed in range(50)}
    assert len(spread) > 40
    assert all(0.8 <= delay <= 1.6 for delay in spread)


def test_l13_two_healthy_minutes_after_a_pause_reset_it() -> None:
    backoff = Backoff(Constant(0))
    assert backoff.next_seconds(0) == pytest.approx(0.8)
    assert backoff.next_seconds(0.8 + 119) == pytest.approx(1.6)
    assert backoff.next_seconds(0.8 + 119 + 1.6 + 121) == pytest.approx(0.8)


def test_w7_retry_after_is_a_minimum_of_the_backoff() -> None:
    backoff = Backoff(Constant(0))
    assert backoff.next_seconds(0, at_least_seconds=7) == 7
    assert backoff.next_seconds(7, at_least_seconds=0.1) == pytest.approx(1.6)
