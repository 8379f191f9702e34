"""What tests of pairs say: each bandwidth against the others of this run and of earlier ones, as a search. Pure.

Bandwidths over different transports are different figures. A pair of nodes with several devices has a rail for each;
one that is slower than the others of the same pair is told, too.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from services.diagnoser.domain.blame import PairOutcome
from services.diagnoser.domain.book import Book, pair_figure
from services.diagnoser.domain.devices import with_floor
from services.diagnoser.domain.figures import FigureRule, Peers, Ruling, least_good, rule_on
from services.diagnoser.domain.gathered import Gathered, PairValue
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.search import Search

BANDWIDTH: Final = FigureRule("pair bandwidth", "MB/s", effect=0.2, noise=0.05)
PAIR_FLOOR: Final = "pairMbS"
UNEVEN_RAIL: Final = 0.8


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

    def of(self, value: PairValue) -> tuple[FigureRule, Ruling | None]:
        """The rule and what it says; no ruling where there is no bandwidth."""
        rule = _rule_of_pair(value.pair, self._gathered)
        if value.bandwidth_mb_s is None:
            return rule, None
        fleet = self._book.fleet(self._gathered.kind(value.pair.first), pair_figure(value.transport))
        others = self._peers[value.transport].beside(value.bandwidth_mb_s)
        return rule, rule_on(rule, value.bandwidth_mb_s, others, fleet)

    def why(self, value: PairValue) -> str:
        """What is wrong with the test; empty where nothing is."""
        _, ruling = self.of(value)
        if value.problem or ruling is None:
            return value.problem or "no result"
        return ruling.why or _why_uneven(value.rails)


def search_of(gathered: Gathered, book: Book) -> Search:
    """The search, with each test judged by all values that there are by now."""
    rulings = PairRulings(gathered, book)
    judged = (tuple(PairOutcome(value.pair, rulings.why(value)) for value in each) for each in gathered.rounds)
    sound = frozenset(gathered.paired) - frozenset(gathered.tested)
    return Search(gathered.paired, gathered.known, tuple(judged), gathered.settled, sound)


def enough_of_pair(pair: Pair, gathered: Gathered, book: Book) -> dict[str, float]:
    """From which bandwidth on nothing more needs to be known of the way between two nodes."""
    fleet = book.fleet(gathered.kind(pair.first), pair_figure(gathered.transport(pair)))
    known = least_good(_rule_of_pair(pair, gathered), fleet)
    return {"bandwidthMbS": known} if known else {}


def _rule_of_pair(pair: Pair, gathered: Gathered) -> FigureRule:
    floors = [gathered.profile(node).floors.get(PAIR_FLOOR) for node in pair.nodes]
    return with_floor(BANDWIDTH, min((floor for floor in floors if floor is not None), default=None))


def _why_uneven(rails: Sequence[float]) -> str:
    """A rail that is slower than the others of the same pair."""
    if len(rails) < 2 or min(rails) >= UNEVEN_RAIL * statistics.median(rails):
        return ""
    slow, middle = rails.index(min(rails)), statistics.median(rails)
    return f"rail {slow} has {min(rails):.4g} MB/s, where the rails of the pair have {middle:.4g} MB/s in the middle"
