"""Who is to blame for tests of pairs that failed: both nodes, the link between them, or chance. Pure.

A test fails where any part of it shows its fault, or by chance. So what a failure says of a node depends on how likely
its partner and their link are bad, and theirs on the node. All tests of one pair are looked at together, over every way
in which its three parts may be good or bad: one that always fails speaks for a part whose fault always shows, and not
for two that are both bad a little. What a pair says of its nodes goes on to the other pairs of these, and back, a few
times over, until they agree (belief propagation). A pair that never failed speaks for each of its parts by itself. A
failure beside a partner that is known to be bad says little; two beside trusted partners say nearly everything.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from services.diagnoser.domain.beliefs import CHANCE, LINK_IS_BAD, SHOWS, Belief, Weights, normalised
from services.diagnoser.domain.pairing import Pair, is_link

_ROUNDS: Final = 8
_TINY: Final = 1e-12

Array = NDArray[np.float64]


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
    failures = Counter(test.pair for test in tests if test.why)
    made = Counter(test.pair for test in tests)
    passes: Counter[str] = Counter()
    for pair, count in made.items():
        if pair not in failures:
            passes.update({pair.first: count, pair.second: count, pair.link: count})
    nodes = {node for pair in failures for node in pair.nodes}
    links = {pair.link for pair in failures}
    alone = _Alone(known)
    blames = {part: alone.blame(part, passes[part]) for part in passes.keys() | nodes | links}
    if not failures:
        return blames
    factors = [_Factor(pair, count, made[pair] - count, blames) for pair, count in failures.items()]
    weights = _agreed(factors, {node: np.array(blames[node].weights) for node in nodes})
    fails: defaultdict[str, float] = defaultdict(float)
    for factor in factors:
        weights[factor.pair.link] = factor.of_link
        for part, share in factor.shares.items():
            fails[part] += share
    told = {part: tuple(each.tolist()) for part, each in weights.items()}
    return blames | {part: Blame(blames[part].before, told[part], fails[part]) for part in told}


class _Alone:
    """What passed tests say of parts, each by itself. Most parts passed the same few and were never heard of before."""

    def __init__(self, known: Mapping[str, Belief]) -> None:
        self._known = known
        self._made: dict[tuple[Belief, int], Blame] = {}

    def blame(self, part: str, passes: int) -> Blame:
        """The belief after so many of them."""
        before = self._known.get(part) or (_NEW_LINK if is_link(part) else _NEW_NODE)
        made = self._made.get((before, passes))
        if made is None:
            logs = (math.log(max(each, _TINY)) for each in before.weights)
            weights = normalised(log + passes * passed for log, passed in zip(logs, _PASSED, strict=True))
            made = self._made[before, passes] = Blame(before, weights)
        return made


_PASSED: Final = (0.0, *(math.log(1 - shows) for shows in SHOWS))
_NEW_LINK: Final = Belief(prior=LINK_IS_BAD)
_NEW_NODE: Final = Belief()


@dataclass
class _Factor:
    """All tests of one pair that failed at least once: what they say of its parts, as far as these are known else."""

    pair: Pair
    fails: int
    passes: int
    blames: Mapping[str, Blame]
    said: dict[str, Array] = field(default_factory=dict)
    _joint: Array = field(init=False)
    _likely: Array = field(init=False)

    def __post_init__(self) -> None:
        link = np.array(self.blames[self.pair.link].weights)
        self._likely = _LIKELIHOODS.of(self.fails, self.passes) * link
        self.said = {node: np.ones(len(_SHOWS)) for node in self.pair.nodes}
        self._joint = self._likely

    def hear(self, first: Array, second: Array) -> None:
        """Take what else is known of both nodes, and say what that makes likely for each of them."""
        self._joint = self._likely * first[:, None, None] * second[None, :, None]
        for node, message in (
            (self.pair.first, np.einsum("ijl,j->i", self._likely, second)),
            (self.pair.second, np.einsum("ijl,i->j", self._likely, first)),
        ):
            self.said[node] = np.maximum(message / message.max(), _TINY)

    @property
    def of_link(self) -> Array:
        """What is believed of the link."""
        weights: Array = self._joint.sum(axis=(0, 1))
        return _normal(weights)

    @property
    def shares(self) -> dict[str, float]:
        """The failed tests, each as far as each part is to blame."""
        likely = self._joint / self._joint.sum() * self.fails
        return {part: float((likely * share).sum()) for part, share in zip(_parts(self.pair), _SHARES, strict=True)}


def _parts(pair: Pair) -> tuple[str, str, str]:
    return pair.first, pair.second, pair.link


def _agreed(factors: Sequence[_Factor], own: Mapping[str, Array]) -> dict[str, Array]:
    """What is believed of the nodes once all pairs have heard of each other."""
    of_node: defaultdict[str, list[_Factor]] = defaultdict(list)
    for factor in factors:
        for node in factor.pair.nodes:
            of_node[node].append(factor)
    weights = dict(own)
    for _ in range(_ROUNDS):
        for factor in factors:
            first, second = (_normal(weights[node] / factor.said[node]) for node in factor.pair.nodes)
            factor.hear(first, second)
            for node, cavity in zip(factor.pair.nodes, (first, second), strict=True):
                weights[node] = _normal(cavity * factor.said[node])
    return weights


def _normal(weights: Array) -> Array:
    weights = np.maximum(weights, _TINY)
    normal: Array = weights / weights.sum()
    return normal


# How often a part shows a fault, by the way in which it is bad; a good one never does.
_SHOWS: Final = np.array((0.0, *SHOWS))


class _Likelihoods:
    """How likely so many failed and passed tests of a pair are, by the ways of its first node, its second, its link."""

    def __init__(self) -> None:
        shown = 1 - _SHOWS
        self._passes = (1 - CHANCE) * shown[:, None, None] * shown[None, :, None] * shown[None, None, :]

    def of(self, fails: int, passes: int) -> Array:
        """One value for each of these ways."""
        likely: Array = (1 - self._passes) ** fails * self._passes**passes
        return likely


_LIKELIHOODS: Final = _Likelihoods()
_CAUSES: Final = CHANCE + _SHOWS[:, None, None] + _SHOWS[None, :, None] + _SHOWS[None, None, :]
_SHARES: Final = (
    _SHOWS[:, None, None] / _CAUSES,
    _SHOWS[None, :, None] / _CAUSES,
    _SHOWS[None, None, :] / _CAUSES,
)
