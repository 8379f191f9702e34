"""What is believed of a part (a device, a link, a node): how likely it is bad, from the tests that it was in. Pure.

A part is good, or bad in one of four ways: a fault shows always, in half of the tests, in a quarter, or in an eighth
(`SHOWS`). A good part fails a test by chance, too (`CHANCE`), and looks slow in a job by chance more often
(`WEAK_CHANCE`). How much more likely what was seen is if the part is bad
in each way than if it is good, is kept as a logarithm, its evidence; with how likely such a part is bad before any test
that gives, by Bayes, how likely each of the five is. Evidence fades: half of it is gone after `HALF_LIFE_H` hours, so
an old failure is forgiven when nothing followed, and an old success vouches for nobody. For the same reason successes
count up to a limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SHOWS: Final = (0.97, 0.5, 0.25, 0.125)
CHANCE: Final = 0.01
WEAK_CHANCE: Final = 0.05
WEAK_ENOUGH: Final = 0.3
NODE_IS_BAD: Final = 0.01
LINK_IS_BAD: Final = 0.003
HALF_LIFE_H: Final = 72.0
SUSPECT: Final = 0.05
RED: Final = 0.97
_MOST_TRUST: Final = 3.0
_MOST_DOUBT: Final = 40.0
_TINY: Final = 1e-300

Weights = tuple[float, ...]
Evidence = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Belief:
    """Evidence against a part, by way of being bad; `fails` is how many failures it is to blame for.

    `prior` is how likely such a part is bad before any test.
    """

    evidence: Evidence = (0.0,) * len(SHOWS)
    fails: float = 0.0
    prior: float = NODE_IS_BAD

    @property
    def weights(self) -> Weights:
        """How likely it is good, and bad in each of the ways, in the order of `SHOWS`."""
        bad = math.log(self.prior / len(SHOWS))
        return normalised([math.log(1 - self.prior), *(bad + each for each in self.evidence)])

    @property
    def suspicion(self) -> float:
        """How likely it is bad."""
        return 1 - self.weights[0]

    @property
    def is_suspect(self) -> bool:
        """Whether it is to be looked at again, beside parts that are trusted."""
        return self.suspicion >= SUSPECT

    def after(self, *, fails: int = 0, passes: int = 0) -> Belief:
        """The belief after more tests of this part alone."""
        of_fail, of_pass = (math.log(CHANCE), math.log(1 - CHANCE))
        more = (fails * (math.log(shows) - of_fail) + passes * (math.log(1 - shows) - of_pass) for shows in SHOWS)
        return self._with((old + new for old, new in zip(self.evidence, more, strict=True)), self.fails + fails)

    def doubted(self) -> Belief:
        """The belief after one weak sign: something looked wrong that has other causes, too, and is no failed test.

        Passed tests do not speak against it, since it shows what they missed. Signs alone never convict, whatever jobs
        say of themselves: where enough is suspected one changes nothing.
        """
        if self.suspicion >= WEAK_ENOUGH:
            return self
        more = (math.log(shows) - math.log(WEAK_CHANCE) for shows in SHOWS)
        return self._with((max(old, 0.0) + new for old, new in zip(self.evidence, more, strict=True)), self.fails)

    def learned(self, weights: Weights, fails: float) -> Belief:
        """The belief that has these weights, after so many more failures that are this part's."""
        odds = math.log((1 - self.prior) / (self.prior / len(SHOWS)))
        good = max(weights[0], _TINY)
        return self._with((math.log(max(each, _TINY) / good) + odds for each in weights[1:]), self.fails + fails)

    def faded(self, hours: float) -> Belief:
        """The belief after so many hours without a test."""
        left = 0.5 ** (max(hours, 0.0) / HALF_LIFE_H)
        return self._with((each * left for each in self.evidence), self.fails * left)

    def _with(self, evidence: Iterable[float], fails: float) -> Belief:
        bounded = tuple(min(max(each, -_MOST_TRUST), _MOST_DOUBT) for each in evidence)
        return Belief(bounded, fails, self.prior)


def normalised(logs: Iterable[float]) -> Weights:
    """Probabilities of their logarithms, which need not sum to one."""
    given = tuple(logs)
    highest = max(given)
    weights = [math.exp(each - highest) for each in given]
    total = sum(weights)
    return tuple(weight / total for weight in weights)
