"""What tests of pairs say: each bandwidth against the others of this run and of earlier ones, as a search. Pure.

Bandwidths over different transports are different figures. A pair of nodes with several devices has a rail for each;
one that is slower than the others of the same pair is told, too.

Where machines are busy values scatter, and only downwards: so where they do not agree but for the figure's own noise,
each that is lower by the minimum effect than the best of them is measured again, up to `BEST_OF` times, and its best
counts. What is lower than the middle by then is in question: it is compared with trusted pairs in turns (`comparing`),
and that decides. Over NCCL, whose devices nobody else uses, one that stands out of values that agree is bad at once.
The floor holds in any case.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from services.diagnoser.domain.blame import PairOutcome
from services.diagnoser.domain.book import Book, pair_figure
from services.diagnoser.domain.devices import with_floor
from services.diagnoser.domain.figures import FEWEST_VALUES, FigureRule, Ordinary, Peers, Ruling, least_good, rule_on
from services.diagnoser.domain.gathered import Gathered, PairValue
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.search import Search

BANDWIDTH: Final = FigureRule("pair bandwidth", "MB/s", effect=0.2, noise=0.05)
PAIR_FLOOR: Final = "pairMbS"
UNEVEN_RAIL: Final = 0.8
TRUSTED_PAIRS: Final = 2
BEST_OF: Final = 4


class PairRulings:
    """The bandwidth of each test of a pair, judged by all values over the same transport that there are by now."""

    def __init__(self, gathered: Gathered, book: Book) -> None:
        self._gathered = gathered
        self._book = book
        measured: defaultdict[str, list[float]] = defaultdict(list)
        for value in (value for each in gathered.rounds for value in each):
            if value.bandwidth_mb_s is not None:
                measured[value.transport].append(value.bandwidth_mb_s)
        self._peers = {transport: Peers(values) for transport, values in measured.items()}
        self._all = {transport: Ordinary(tuple(values), "") for transport, values in measured.items()}
        self._brisk = {transport: _brisk(values) for transport, values in measured.items()}

    def of(self, value: PairValue) -> tuple[FigureRule, Ruling | None]:
        """The rule and what it says; no ruling where there is no bandwidth."""
        rule = _rule_of_pair(value.pair, self._gathered)
        if value.bandwidth_mb_s is None:
            return rule, None
        fleet = self._book.fleet(self._gathered.kind(value.pair.first), pair_figure(value.transport))
        others = self._peers[value.transport].beside(value.bandwidth_mb_s)
        ruling = rule_on(rule, value.bandwidth_mb_s, others, fleet)
        is_compared = value.compared is not None and not rule.breaks_floor(value.bandwidth_mb_s)
        return rule, replace(ruling, why=self._why_compared(value)) if is_compared else ruling

    def why(self, value: PairValue) -> str:
        """What is wrong with the test; empty where nothing is."""
        _, ruling = self.of(value)
        if value.problem or ruling is None:
            return value.problem or "no result"
        return ruling.why or _why_uneven(value.rails)

    def to_repeat(self) -> list[PairValue]:
        """Tests whose value may be low by chance, since others are far above it."""
        return [value for each in self._gathered.rounds for value in each if self._is_to_repeat(value)]

    def in_question(self) -> list[PairValue]:
        """Tests of which one value does not say whether the pair is slow, the slowest first."""
        low = (value for each in self._gathered.rounds for value in each if self._is_low(value))
        values = (value for value in low if value.compared is None and not self._why_not_compared(value))
        return sorted(values, key=lambda value: value.bandwidth_mb_s or 0.0)

    def comparison(self, value: PairValue) -> str:
        """What came of a low value: how often it was compared, or why not; empty where it is not low."""
        if value.compared is not None:
            outcome = "slow" if value.compared.is_slow else "cleared"
            return f"compared {value.compared.times} times in turns, {outcome}"
        why = self._why_not_compared(value) or (
            "" if self.trusted(value) else "there is no ordinary pair to compare it with"
        )
        return f"not compared in turns: {why or 'too many were low, or the time was up'}" if self._is_low(value) else ""

    def reached(self, pairs: Sequence[Pair]) -> float:
        """The best bandwidth of these pairs so far."""
        values = (value for each in self._gathered.rounds for value in each if value.pair in pairs)
        return max((value.bandwidth_mb_s or 0.0 for value in values), default=0.0)

    def trusted(self, value: PairValue) -> tuple[Pair, ...]:
        """Pairs that a value is to be compared with: ordinary ones, of other nodes where there are such."""
        middle = self._all[value.transport].median
        found: dict[Pair, float] = {}
        for other in (other for each in self._gathered.rounds for other in each):
            is_like = other.transport == value.transport and other.pair != value.pair
            if is_like and other.bandwidth_mb_s and not self.why(other) and not self._is_low(other):
                found[other.pair] = abs(other.bandwidth_mb_s / middle - 1)
        shared = {pair: len({*pair.nodes} & {*value.pair.nodes}) for pair in found}
        return tuple(sorted(found, key=lambda pair: (shared[pair], found[pair], pair))[:TRUSTED_PAIRS])

    def _why_not_compared(self, value: PairValue) -> str:
        """Why a low value says enough by itself, or nothing can be compared; empty where it is in question."""
        if _rule_of_pair(value.pair, self._gathered).breaks_floor(value.bandwidth_mb_s or 0.0):
            return "its floor decides"
        if len(self._all[value.transport].values) < FEWEST_VALUES:
            return f"fewer than {FEWEST_VALUES} tests of pairs gave a bandwidth"
        is_clear = value.transport == "nccl" and self._agree(value.transport) and bool(self.why(value))
        return "the others agree" if is_clear else ""

    def _is_to_repeat(self, value: PairValue) -> bool:
        if value.bandwidth_mb_s is None or value.best_of >= BEST_OF or self._agree(value.transport):
            return False
        return value.bandwidth_mb_s < (1 - BANDWIDTH.effect) * self._brisk[value.transport]

    def _agree(self, transport: str) -> bool:
        """Whether values differ by no more than their own noise."""
        known = self._all[transport]
        return known.spread(BANDWIDTH.noise) <= BANDWIDTH.noise * known.median

    def _is_low(self, value: PairValue) -> bool:
        if value.bandwidth_mb_s is None:
            return False
        return value.bandwidth_mb_s < (1 - BANDWIDTH.effect) * self._all[value.transport].median

    def _why_compared(self, value: PairValue) -> str:
        """That the pair is slow beside trusted ones; empty where that was not to be shown."""
        compared = value.compared
        if compared is None or not compared.is_slow:
            return ""
        beside = " and ".join("–".join(map(self._gathered.name, pair.nodes)) for pair in value.beside)
        part = f"{BANDWIDTH.name} is {100 * compared.part:.0f} % of that of {beside}"
        return f"{part}, {compared.times} times measured in turns"


def _brisk(values: Sequence[float]) -> float:
    """What the quickest tenth comes up to; of a few the best."""
    return sorted(values, reverse=True)[len(values) // 10]


def search_of(gathered: Gathered, book: Book) -> Search:
    """The search, with each test judged by all values that there are by now."""
    rulings = PairRulings(gathered, book)
    judged = (tuple(PairOutcome(value.pair, rulings.why(value)) for value in each) for each in gathered.rounds)
    sound = frozenset(gathered.paired) - frozenset(gathered.tested)
    return Search(gathered.paired, gathered.known, tuple(judged), gathered.settled, sound)


def enough_of_pair(pair: Pair, gathered: Gathered, book: Book) -> dict[str, float]:
    """From which bandwidth on nothing more needs to be known of the way between two nodes."""
    fleet, rule = (
        book.fleet(gathered.kind(pair.first), pair_figure(gathered.transport(pair))),
        _rule_of_pair(pair, gathered),
    )
    known = least_good(rule, fleet)
    # Where values of the past scatter anything might be good, and what is far below their middle would be in question.
    ordinary = (1 - rule.effect) * statistics.median(fleet) if len(fleet) >= FEWEST_VALUES else 0.0
    return {"bandwidthMbS": max(known, ordinary)} if known else {}


def _rule_of_pair(pair: Pair, gathered: Gathered) -> FigureRule:
    floors = [gathered.profile(node).floors.get(PAIR_FLOOR) for node in pair.nodes]
    return with_floor(BANDWIDTH, min((floor for floor in floors if floor is not None), default=None))


def _why_uneven(rails: Sequence[float]) -> str:
    """A rail that is slower than the others of the same pair."""
    if len(rails) < 2 or min(rails) >= UNEVEN_RAIL * statistics.median(rails):
        return ""
    slow, middle = rails.index(min(rails)), statistics.median(rails)
    return f"rail {slow} has {min(rails):.4g} MB/s, where the rails of the pair have {middle:.4g} MB/s in the middle"
