"""When a figure is known well enough: the early stop inside a stage.

Several samples of one figure are taken. It is known where the 95 % interval of their mean lies within the green band,
which begins at the least value that is good; or, where nobody knows such a value yet, where the interval is narrow.
What is told is the best sample: what else happens on a machine only ever slows one down, and a device that is slow
itself is slow in each. Samples before the device is warm do not count.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

FEWEST = 4
MOST = 400
NARROW = 0.01
# The 97.5 % quantile of Student's distribution, by degrees of freedom; beyond them the normal one's is near enough.
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
_NORMAL = 1.96


class Steady:
    """Samples of a figure of which more is better; `enough` is the least that is good, 0 where that is unknown."""

    def __init__(self, enough: float = 0.0) -> None:
        self._enough = enough
        self.samples: list[float] = []

    def add(self, sample: float) -> None:
        """One more."""
        self.samples.append(sample)

    @property
    def best(self) -> float:
        """What is told."""
        return max(self.samples)

    @property
    def is_known(self) -> bool:
        """Whether more samples would tell nothing new."""
        count = len(self.samples)
        if count < FEWEST:
            return False
        if count >= MOST:
            return True
        mean = statistics.fmean(self.samples)
        half = _quantile(count - 1) * statistics.stdev(self.samples) / math.sqrt(count)
        return mean - half >= self._enough if self._enough else half <= NARROW * mean


def _quantile(freedom: int) -> float:
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL


def measured(
    sample: Callable[[], float],
    *,
    enough: float,
    limit_s: float,
    warm_s: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """The figure, after warming up for so long, and at the latest when the limit is over."""
    began = clock()
    sample()
    while clock() - began < min(warm_s, limit_s / 2):
        sample()
    steady = Steady(enough)
    while not steady.is_known:
        steady.add(sample())
        if clock() - began >= limit_s:
            break
    return steady.best
