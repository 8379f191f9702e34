"""A pair that is measured in turns with trusted ones."""

from __future__ import annotations

import random

import pytest

from services.diagnoser.domain.comparing import FEWEST, MOST, Comparison


def in_turns(part: float, scatter: float, dice: random.Random) -> Comparison:
    """A comparison to its end, on machines that become slower and faster meanwhile, for all alike."""
    load, questioned, trusted = 1.0, list[float](), list[float]()

    def value(of: float) -> float:
        nonlocal load
        load = min(max(load * dice.lognormvariate(0, 0.1), 0.2), 1.0)
        return of * load * dice.lognormvariate(0, scatter)

    while True:
        trusted.append(value(1000))
        comparison = Comparison.of(questioned, trusted)
        if comparison.is_over:
            return comparison
        questioned.append(value(1000 * part))


def test_each_value_is_compared_with_those_before_and_behind_it() -> None:
    comparison = Comparison.of([60.0, 30.0, 15.0], [100.0, 100.0, 25.0, 25.0])
    assert comparison.ratios == pytest.approx((0.6, 0.6, 0.6))
    assert comparison.part == pytest.approx(0.6)
    assert (comparison.is_slow, comparison.is_over) == (True, True)


@pytest.mark.parametrize(("ratios", "is_over"), [((0.6,) * (FEWEST - 1), False), ((1.0,) * FEWEST, True)])
def test_a_few_ratios_decide_and_fewer_do_not(ratios: tuple[float, ...], is_over: bool) -> None:
    assert (Comparison(ratios).is_slow, Comparison(ratios).is_over) == (False, is_over)


def test_what_is_not_shown_after_many_turns_does_not_count() -> None:
    comparison = Comparison((0.3, 1.6) * (MOST // 2))
    assert (comparison.part < 0.85, comparison.is_slow, comparison.is_over) == (True, False, True)


@pytest.mark.parametrize(("scatter", "found"), [(0.05, 100), (0.15, 95)])
def test_sixty_percent_are_found_though_values_scatter_and_a_sound_pair_is_not_slow(scatter: float, found: int) -> None:
    dice = random.Random(4)  # noqa: S311  # noise, no secret
    assert sum(in_turns(0.6, scatter, dice).is_slow for _ in range(100)) >= found
    assert not any(in_turns(1.0, scatter, dice).is_slow for _ in range(400))
