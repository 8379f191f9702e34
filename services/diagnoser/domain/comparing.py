"""Whether a pair of nodes is slower than others that are measured in turns with it. Pure.

Where machines are busy bandwidths scatter, and what one value says is little. So the pair in question (Q) is measured
in turns with trusted pairs (T): T Q T Q T. It is slow where one of two tests says so with a probability of 99.5 %.

- Each Q over the mean of the T before and the T behind it is a ratio in which whatever slows all of them for a while
  cancels. The mean of the ratios' logarithms lies below that of `1 - EFFECT`, by Student's distribution. This decides
  soon where values scatter a little.
- So many T are above the best Q, that one over `1 - EFFECT`, that with pairs as fast as each other it would be chance
  (a precedence test). What else runs on a machine only slows, so the best values say most where many are low.

A pair whose best Q comes up to the best T, that of earlier tests included, is not slow. What is not shown after `MOST`
times does not count.
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
_CHANCE: Final = 0.005
# The 99.5 % quantile of Student's distribution, by degrees of freedom from two on.
_STUDENT: Final = (9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36, 3.25, 3.17, 3.11)
# Two measurements of the same sound way are so far apart even on a quiet machine.
_NOISE: Final = 0.03


@dataclass(frozen=True, slots=True)
class Comparison:
    """Values measured in turns, beginning with a trusted pair; `known` is what trusted pairs had reached before."""

    questioned: tuple[float, ...] = ()
    trusted: tuple[float, ...] = ()
    known: float = 0.0

    @property
    def times(self) -> int:
        """How often the pair in question was measured between two trusted ones."""
        return max(min(len(self.questioned), len(self.trusted) - 1), 0)

    @property
    def ratios(self) -> tuple[float, ...]:
        """Each value of the pair in question over those before and behind it."""
        around = zip(self.questioned, pairwise(self.trusted), strict=False)
        return tuple(value / math.sqrt(before * behind) for value, (before, behind) in around)

    @property
    def part(self) -> float:
        """Which part of the trusted pairs' best bandwidth the best of the one in question is."""
        return max(self.questioned) / max(self.trusted)

    @property
    def is_slow(self) -> bool:
        """Whether it is slower for certain."""
        return self.times >= FEWEST and not self._comes_up and (self._is_slow_beside() or self._is_behind())

    @property
    def is_over(self) -> bool:
        """Whether more turns would change nothing, or too little for their time."""
        return self.times >= MOST or (self.times >= FEWEST and (self._comes_up or self.is_slow))

    @property
    def _comes_up(self) -> bool:
        return max(self.questioned) >= (1 - EFFECT) * max(*self.trusted, self.known)

    def _is_slow_beside(self) -> bool:
        """Student's test."""
        logarithms = [math.log(ratio) for ratio in self.ratios]
        spread = max(statistics.stdev(logarithms), _NOISE)
        quantile = _STUDENT[min(self.times - FEWEST, len(_STUDENT) - 1)]
        most = statistics.fmean(logarithms) + quantile * spread / math.sqrt(self.times)
        return most < math.log(1 - EFFECT)

    def _is_behind(self) -> bool:
        """The precedence test: how likely the so many highest of all are trusted ones by chance."""
        bound = max(self.questioned) / (1 - EFFECT)
        trusted, ahead = len(self.trusted), _count_above(self.trusted, bound)
        return math.comb(trusted, ahead) <= _CHANCE * math.comb(trusted + len(self.questioned), ahead)


def _count_above(values: Sequence[float], bound: float) -> int:
    return sum(value > bound for value in values)
