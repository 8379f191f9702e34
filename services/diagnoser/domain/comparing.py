"""Whether a pair of nodes is slower than others that are measured in turns with it. Pure.

Where machines are busy bandwidths scatter, and what one value says is little. So the pair in question (Q) is measured
in turns with trusted pairs (T): T Q T Q T. Each Q over the mean of the T before and the T behind it is a ratio in which
whatever slows all of them for a while cancels. A pair is slow where the mean of the ratios' logarithms lies below that
of `1 - EFFECT` with a probability of 99.5 %, by Student's distribution. It ends early where the mean is not below it,
and after `MOST` ratios; what is not shown by then does not count.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

EFFECT: Final = 0.15
FEWEST: Final = 3
MOST: Final = 12
# The 99.5 % quantile of Student's distribution, by degrees of freedom from two on.
_STUDENT: Final = (9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36, 3.25, 3.17, 3.11)
# Two measurements of the same sound way are so far apart even on a quiet machine.
_NOISE: Final = 0.03


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of the turns so far: one ratio for each time that the pair in question was measured."""

    ratios: tuple[float, ...]

    @classmethod
    def of(cls, questioned: Sequence[float], trusted: Sequence[float]) -> Comparison:
        """The ratios of values that were measured in turns, beginning and ending with a trusted pair."""
        around = zip(questioned, pairwise(trusted), strict=False)
        return cls(tuple(value / math.sqrt(before * behind) for value, (before, behind) in around))

    @property
    def part(self) -> float:
        """Which part of the trusted pairs' bandwidth the one in question has."""
        return math.exp(self._mean)

    @property
    def is_slow(self) -> bool:
        """Whether it is slower for certain."""
        count = len(self.ratios)
        if count < FEWEST:
            return False
        spread = max(statistics.stdev(self._logarithms), _NOISE)
        quantile = _STUDENT[min(count - FEWEST, len(_STUDENT) - 1)]
        return self._mean + quantile * spread / math.sqrt(count) < math.log(1 - EFFECT)

    @property
    def is_over(self) -> bool:
        """Whether more turns would change nothing, or too little for their time."""
        count = len(self.ratios)
        return count >= MOST or (count >= FEWEST and (self.is_slow or self._mean >= math.log(1 - EFFECT)))

    @property
    def _mean(self) -> float:
        return statistics.fmean(self._logarithms)

    @property
    def _logarithms(self) -> list[float]:
        return [math.log(ratio) for ratio in self.ratios]
