"""A pair that is measured in turns with trusted ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from services.diagnoser.domain.comparing import FEWEST, MOST, Comparison

Noise = Callable[[random.Random], float]


def scattering(scatter: float) -> Noise:
    return lambda dice: dice.lognormvariate(0, scatter)


def held_up(dice: random.Random) -> float:
    """What is left of a bandwidth on a machine whose processors are mostly taken: all of it in half of the tests."""
    return dice.uniform(0.95, 1.0) if dice.random() < 0.5 else dice.uniform(0.2, 1.0)


def in_turns(part: float, noise: Noise, dice: random.Random, drift: float = 0.1) -> Comparison:
    """A comparison to its end, on machines that become slower and faster meanwhile, for all alike."""
    load, comparison = 1.0, Comparison()

    def value(of: float) -> float:
        nonlocal load
        load = min(max(load * dice.lognormvariate(0, drift), 0.2), 1.0)
        return of * load * noise(dice)

    while True:
        comparison = replace(comparison, trusted=(*comparison.trusted, value(1000)))
        if comparison.is_over:
            return comparison
        comparison = replace(comparison, questioned=(*comparison.questioned, value(1000 * part)))


def even(*ratios: float, known: float = 0.0) -> Comparison:
    """Beside trusted pairs that always have the same."""
    return Comparison(tuple(100 * ratio for ratio in ratios), (100.0,) * (len(ratios) + 1), known)


def test_each_value_is_compared_with_those_before_and_behind_it() -> None:
    comparison = Comparison((60.0, 30.0, 15.0), (100.0, 100.0, 25.0, 25.0))
    assert comparison.ratios == pytest.approx((0.6, 0.6, 0.6))
    assert (comparison.part, comparison.times) == (0.6, 3)
    assert (comparison.is_slow, comparison.is_over) == (True, True)


@pytest.mark.parametrize(("ratios", "is_over"), [((0.6,) * (FEWEST - 1), False), ((1.0,) * FEWEST, True)])
def test_a_few_ratios_decide_and_fewer_do_not(ratios: tuple[float, ...], is_over: bool) -> None:
    assert (even(*ratios).is_slow, even(*ratios).is_over) == (False, is_over)


def test_a_pair_that_does_not_come_up_to_what_trusted_ones_had_reached_is_not_cleared_soon() -> None:
    assert even(*(0.9,) * FEWEST).is_over
    assert not even(*(0.9,) * FEWEST, known=150.0).is_over


def test_what_is_not_shown_after_many_turns_does_not_count() -> None:
    comparison = even(*(0.3, 0.84) * (MOST // 2), known=150.0)
    assert (comparison.times, comparison.is_over) == (MOST, True)
    assert not Comparison((84.0,) * MOST, (100.0, *(30.0,) * MOST)).is_slow


def test_a_pair_whose_best_is_behind_most_of_the_others_is_slow_however_they_scatter() -> None:
    trusted = (100.0, 30.0, 95.0, 100.0, 20.0, 90.0, 100.0, 95.0, 20.0, 95.0)
    assert Comparison((20.0, 60.0, 59.0, 30.0, 60.0, 10.0, 60.0, 20.0, 58.0), trusted).is_slow


@pytest.mark.parametrize(
    ("noise", "drift", "found"),
    [(scattering(0.05), 0.1, 100), (scattering(0.15), 0.1, 95), (held_up, 0.03, 85)],
)
def test_sixty_percent_are_found_though_values_scatter_and_a_sound_pair_is_not_slow(
    noise: Noise, drift: float, found: int
) -> None:
    dice = random.Random(4)  # noqa: S311  # noise, no secret
    assert sum(in_turns(0.6, noise, dice, drift).is_slow for _ in range(100)) >= found
    assert not any(in_turns(1.0, noise, dice, drift).is_slow for _ in range(400))
