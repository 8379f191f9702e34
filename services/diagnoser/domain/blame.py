"""Who is to blame for tests of pairs that failed: both nodes, the link between them, or chance. Pure.

A test fails where any part of it shows its fault, or by chance. So what a failure says of a node depends on how likely
its partner and their link are bad, and theirs on the node: each belief is made anew from the others, a few times over,
until they agree. A passed test needs none of that: it speaks for each of its parts by itself. A failure beside a
partner that is known to be bad says little; two failures beside trusted partners say nearly everything.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from services.diagnoser.domain.beliefs import CHANCE, LINK_IS_BAD, SHOWS, Belief, Weights, failing, normalised
from services.diagnoser.domain.pairing import Pair, is_link

_ITERATIONS: Final = 10
_TINY: Final = 1e-300


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """One test of a pair: `why` says what was wrong, and is empty where nothing was."""

    pair: Pair
    why: str = ""

    @property
    def failed(self) -> bool:
        """Whether something was wrong."""
        return bool(self.why)

    @property
    def parts(self) -> tuple[str, str, str]:
        """What may have caused a failure."""
        return self.pair.first, self.pair.second, self.pair.link


@dataclass(frozen=True, slots=True)
class Blame:
    """What is believed of a part after the tests, and how many failures it is to blame for."""

    before: Belief
    weights: Weights
    fails: float = 0.0

    @property
    def suspicion(self) -> float:
        """How likely the part is bad."""
        return 1 - self.weights[0]

    @property
    def learned(self) -> Belief:
        """What the ledger is to remember."""
        return self.before.learned(self.weights, self.fails)


def blame(tests: Sequence[PairOutcome], known: Mapping[str, Belief]) -> dict[str, Blame]:
    """What to believe of every part that was tested; `known` is what was believed before."""
    passes = Counter(part for test in tests if not test.failed for part in test.parts)
    failed = [test for test in tests if test.failed]
    failures: defaultdict[str, list[PairOutcome]] = defaultdict(list)
    for test in failed:
        for part in test.parts:
            failures[part].append(test)
    before = {part: _before(part, known) for part in {*passes, *failures}}
    after_passes = {part: belief.after(passes=passes[part]) for part, belief in before.items()}
    # Most parts passed the same few tests and were never heard of before: their weights are made once.
    weights_of = {belief: belief.weights for belief in set(after_passes.values())}
    weights = {part: weights_of[belief] for part, belief in after_passes.items()}
    prior = {part: weights[part] for part in failures}
    for _ in range(_ITERATIONS):
        chances = {part: failing(weights[part]) for part in failures}
        new = {part: _posterior(part, prior[part], failures[part], chances) for part in failures}
        weights |= {part: _between(weights[part], each) for part, each in new.items()}
    chances = {part: failing(weights[part]) for part in failures}
    fails = {part: _share(part, own, chances) for part, own in failures.items()}
    return {part: Blame(before[part], weights[part], fails.get(part, 0.0)) for part in before}


def _before(part: str, known: Mapping[str, Belief]) -> Belief:
    return known.get(part) or (Belief(prior=LINK_IS_BAD) if is_link(part) else Belief())


def _posterior(part: str, prior: Weights, failures: Iterable[PairOutcome], chances: Mapping[str, float]) -> Weights:
    logs = [math.log(max(weight, _TINY)) for weight in prior]
    for test in failures:
        others_pass = (1 - CHANCE) * math.prod(1 - chances[other] for other in test.parts if other != part)
        for place, shows in enumerate((0.0, *SHOWS)):
            logs[place] += math.log(1 - (1 - shows) * others_pass)
    return normalised(logs)


def _between(old: Weights, new: Weights) -> Weights:
    """Half way, since two parts that blame each other would else swing to and fro."""
    return tuple((one + other) / 2 for one, other in zip(old, new, strict=True))


def _share(part: str, failures: Iterable[PairOutcome], chances: Mapping[str, float]) -> float:
    """The failed tests, each as far as this part is to blame."""
    return sum(chances[part] / (CHANCE + sum(chances[each] for each in test.parts)) for test in failures)
