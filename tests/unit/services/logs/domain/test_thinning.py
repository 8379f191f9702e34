"""Which points of a long curve are shown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.thinning import shown


def test_a_short_curve_is_shown_whole():
    assert shown(np.arange(7.0), 7).tolist() == list(range(7))


def test_a_single_spike_and_a_single_dip_survive():
    values = np.sin(np.arange(100_000) / 1000)
    values[33_333], values[77_777] = 50, -50
    chosen = shown(values, 100)
    assert {0, 33_333, 77_777, 99_999} <= set(chosen.tolist())
    assert len(chosen) <= 100


def test_a_value_that_is_no_number_survives():
    values = np.ones(10_000)
    values[5000], values[6000] = np.nan, np.inf
    chosen = set(shown(values, 50).tolist())
    assert {5000, 6000} <= chosen


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_curve_without_any_number_is_thinned_as_well(value: float):
    assert 2 <= len(shown(np.full(1000, value), 20)) <= 20


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=300),
    st.integers(min_value=5, max_value=60),
)
def test_at_most_so_many_points_in_order_with_both_ends_and_the_extremes(numbers: list[float], points: int):
    values = np.array(numbers)
    chosen = shown(values, points)
    assert len(chosen) <= max(points, len(numbers) if len(numbers) <= points else 0)
    assert chosen[0] == 0
    assert chosen[-1] == len(values) - 1
    assert (np.diff(chosen) > 0).all()
    finite = values[np.isfinite(values)]
    if len(finite):
        kept = values[chosen][np.isfinite(values[chosen])]
        assert (kept.min(), kept.max()) == (finite.min(), finite.max())
