"""Each figure by itself: the floor, the others, the fleet, its own past."""

from __future__ import annotations

import random

import pytest

from services.diagnoser.domain.figures import MANY, FigureRule, Ordinary, Peers, rule_on

GEMM = FigureRule("compute", "GFLOP/s", floor=50.0, noise=0.02)
LATENCY = FigureRule("latency", "µs", more_is_better=False, floor=500.0, noise=0.05)


def around(middle: float, count: int, *, part: float = 0.01, seed: int = 1) -> list[float]:
    dice = random.Random(seed)  # noqa: S311  # noise, no secret
    return [dice.gauss(middle, middle * part) for _ in range(count)]


def test_a_value_below_the_floor_is_bad_even_where_all_are_like_it() -> None:
    ruling = rule_on(GEMM, 40, [40.0] * 20)
    assert ruling.why == "compute is 40 GFLOP/s; at least 50 GFLOP/s are needed"


def test_a_time_above_its_limit_is_bad() -> None:
    assert rule_on(LATENCY, 501).why == "latency is 501 µs; at most 500 µs are needed"


@pytest.mark.parametrize(("figure", "value"), [(GEMM, 85.0), (LATENCY, 140.0)])
def test_a_value_that_stands_out_among_the_others_is_bad(figure: FigureRule, value: float) -> None:
    ruling = rule_on(figure, value, around(100, 15))
    assert "15 others of this run" in ruling.why


def test_what_earlier_runs_alone_say_names_no_others_of_this_run() -> None:
    assert rule_on(GEMM, 100.0, [], [100.0] * 5).against == "5 earlier values"


def test_a_better_value_is_never_bad() -> None:
    assert not rule_on(GEMM, 300, around(100, 15)).is_bad
    assert not rule_on(LATENCY, 1, around(100, 15)).is_bad


def test_a_small_difference_is_good_however_alike_the_others_are() -> None:
    assert not rule_on(FigureRule("copy", "GB/s", noise=0.0), 96, [100.0] * 15).is_bad
    assert rule_on(FigureRule("copy", "GB/s", noise=0.0), 94, [100.0] * 15).is_bad


def test_among_values_that_are_far_apart_a_large_difference_is_good() -> None:
    assert not rule_on(GEMM, 80, around(100, 15, part=0.1)).is_bad


def test_one_bad_value_among_the_others_does_not_hide_another() -> None:
    assert rule_on(GEMM, 80, [*around(100, 6), 55.0, 60.0]).is_bad


@pytest.mark.parametrize("gang", [1, 2, 3])
def test_a_small_gang_is_judged_by_what_the_fleet_gave_before(gang: int) -> None:
    others = [85.0] * (gang - 1)
    assert rule_on(GEMM, 85, others, fleet=around(100, 30)).is_bad
    assert not rule_on(GEMM, 85, others, fleet=around(85, 30)).is_bad


def test_a_node_that_falls_behind_its_own_past_is_bad() -> None:
    ruling = rule_on(GEMM, 100, around(100, 15), own=around(130, 6))
    assert "its own last 6 values" in ruling.why


def test_where_nothing_is_known_nothing_but_the_floor_judges_and_that_is_said() -> None:
    assert rule_on(GEMM, 60, [100.0]).against == "the floor alone"
    assert rule_on(FigureRule("copy", "GB/s"), 1).against == "nothing yet"


def test_the_ruling_says_where_the_value_stands_among_the_others() -> None:
    ruling = rule_on(GEMM, 75, [70.0, 80.0, 90.0, 100.0])
    assert (ruling.median, ruling.percentile) == (85.0, 25.0)


def test_noise_alone_is_never_bad_in_fifty_runs_of_eight() -> None:
    noisy = FigureRule("copy", "GB/s", effect=0.1, noise=0.05)
    for seed in range(50):
        values = around(10, 8, part=0.06, seed=seed)
        assert not [v for at, v in enumerate(values) if rule_on(noisy, v, values[:at] + values[at + 1 :]).is_bad]


def test_of_few_values_each_is_judged_by_the_others_and_of_many_by_all() -> None:
    few, many = Peers([1.0, 2.0, 2.0]), Peers(around(100, MANY + 1))
    assert few.beside(2.0) == (1.0, 2.0)
    found = many.beside(100.0)
    assert isinstance(found, Ordinary)
    assert len(found.values) == MANY + 1
    assert rule_on(GEMM, 80, found).is_bad
