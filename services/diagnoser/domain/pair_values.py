"""What tests of pairs say: each bandwidth against the others of this run and of earlier ones, as a search. Pure.

Bandwidths over different transports are different figures. A pair of nodes with several devices has a rail for each;
one that is slower than the others of the same pair is told, too.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from services.diagnoser.domain.blame import PairOutcome
from services.diagnoser.domain.book import Book, pair_figure
from services.diagnoser.domain.devices import with_floor
from services.diagnoser.domain.figures import FigureRule, Peers, least_good, rule_on
from services.diagnoser.domain.gathered import Gathered, PairValue
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.search import Search

BANDWIDTH: Final = FigureRule("pair bandwidth", "MB/s", effect=0.2, noise=0.05)
PAIR_FLOOR: Final = "pairMbS"
UNEVEN_RAIL: Final = 0.8


def search_of(gathered: Gathered, book: Book) -> Search:
    """The search, with each test judged by all values that there are by now."""
    measured: defaultdict[str, list[float]] = defaultdict(list)
    for value in (value for each in gathered.rounds for value in each):
        if value.bandwidth_mb_s is not None:
            measured[value.transport].append(value.bandwidth_mb_s)
    peers = {transport: Peers(values) for transport, values in measured.items()}
    judged = (
        tuple(PairOutcome(value.pair, _why(value, peers, gathered, book)) for value in each) for each in gathered.rounds
    )
    return Search(gathered.paired, gathered.known, tuple(judged))


def enough_of_pair(pair: Pair, gathered: Gathered, book: Book) -> dict[str, float]:
    """From which bandwidth on nothing more needs to be known of the way between two nodes."""
    fleet = book.fleet(gathered.kind(pair.first), pair_figure(gathered.transport(pair)))
    known = least_good(_rule_of_pair(pair, gathered), fleet)
    return {"bandwidthMbS": known} if known else {}


def _rule_of_pair(pair: Pair, gathered: Gathered) -> FigureRule:
    floors = [gathered.profile(node).floors.get(PAIR_FLOOR) for node in pair.nodes]
    return with_floor(BANDWIDTH, min((floor for floor in floors if floor is not None), default=None))


def _why(value: PairValue, peers: Mapping[str, Peers], gathered: Gathered, book: Book) -> str:
    if value.problem or value.bandwidth_mb_s is None:
        return value.problem or "no result"
    fleet = book.fleet(gathered.kind(value.pair.first), pair_figure(value.transport))
    others = peers[value.transport].beside(value.bandwidth_mb_s)
    why = rule_on(_rule_of_pair(value.pair, gathered), value.bandwidth_mb_s, others, fleet).why
    return why or _why_uneven(value.rails)


def _why_uneven(rails: Sequence[float]) -> str:
    """A rail that is slower than the others of the same pair."""
    if len(rails) < 2 or min(rails) >= UNEVEN_RAIL * statistics.median(rails):
        return ""
    slow, middle = rails.index(min(rails)), statistics.median(rails)
    return f"rail {slow} has {min(rails):.4g} MB/s, where the rails of the pair have {middle:.4g} MB/s in the middle"
