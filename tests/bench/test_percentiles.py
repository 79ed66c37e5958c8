from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.percentiles import Spread, percentile, ratio_of_pairs

VALUES = st.lists(st.floats(0, 1e6), min_size=1)


def test_a_percentile_is_the_smallest_value_with_enough_values_at_or_below_it() -> None:
    hundred = [float(number) for number in range(1, 101)]

    assert percentile(hundred, 50) == 50
    assert percentile(hundred, 99) == 99
    assert percentile(hundred, 100) == 100
    assert percentile(hundred, 0) == 1
    assert percentile([3.0, 1.0, 2.0], 50) == 2


def test_p99_of_fewer_than_100_values_is_the_largest() -> None:
    assert percentile([float(number) for number in range(99)], 99) == 98


@given(VALUES, st.floats(0, 100))
def test_a_percentile_is_a_measured_value_that_covers_its_share(values: list[float], percent: float) -> None:
    found = percentile(values, percent)

    assert found in values
    assert sum(value <= found for value in values) >= percent / 100 * len(values) - 1e-9


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], -1), ([1.0], 101)])
def test_a_percentile_needs_values_and_a_valid_percentage(values: list[float], percent: float) -> None:
    with pytest.raises(ValueError, match=r"percentile"):
        percentile(values, percent)


@given(VALUES)
def test_the_percentiles_of_a_spread_ascend(values: list[float]) -> None:
    spread = Spread.of(values)

    assert min(values) <= spread.p50 <= spread.p90 <= spread.p99 <= spread.largest == max(values)
    assert spread.count == len(values)


def test_a_slow_round_cancels_out_of_a_ratio() -> None:
    # The third round was ten times slower for both.
    assert ratio_of_pairs([8.0, 8.0, 0.8], [10.0, 10.0, 1.0]) == pytest.approx(0.8)


def test_rounds_of_only_one_side_do_not_count() -> None:
    assert ratio_of_pairs([1.0, 100.0], [2.0]) == 0.5
    with pytest.raises(ValueError, match="no pairs"):
        ratio_of_pairs([1.0], [])
