"""When a figure is known well enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, cycle

from services.agent.worker.steady import MOST, Steady, measured


def ticking(step_s: float = 1.0) -> Callable[[], float]:
    """A clock that goes on by so much each time somebody looks."""
    ticks: Iterator[int] = count()
    return lambda: next(ticks) * step_s


def steady_of(*samples: float, enough: float = 0.0) -> Steady:
    found = Steady(enough)
    for sample in samples:
        found.add(sample)
    return found


def test_a_few_samples_that_agree_are_enough_where_no_good_value_is_known():
    assert not steady_of(100, 100, 100).is_known
    assert steady_of(100, 100.1, 99.9, 100).is_known
    assert not steady_of(100, 60, 140, 100).is_known


def test_samples_that_lie_in_the_green_band_are_enough_though_they_differ():
    assert steady_of(100, 90, 110, 100, enough=70).is_known
    assert not steady_of(100, 90, 110, 100, enough=95).is_known


def test_the_best_sample_is_told():
    assert steady_of(90, 100, 95).best == 100


def test_a_figure_that_never_settles_ends_with_the_limit_or_with_many_samples():
    wild = cycle((50.0, 150.0))
    assert measured(lambda: next(wild), enough=0.0, limit_s=20, clock=ticking()) == 150.0
    samples: list[float] = []

    def sample() -> float:
        samples.append(next(wild))
        return samples[-1]

    measured(sample, enough=0.0, limit_s=1e9, clock=ticking())
    assert len(samples) == MOST + 1


def test_what_is_measured_while_the_device_warms_up_does_not_count():
    falling = iter([200.0, 190.0, 180.0, *[100.0] * 100])
    assert measured(lambda: next(falling), enough=0.0, limit_s=100, warm_s=4, clock=ticking()) == 100.0
