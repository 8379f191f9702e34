"""Which nodes are tested together: pure, and the same for the same input.

Two rounds screen all nodes. In both the more suspicious half meets the more trusted half, each node somebody else in
the second round: so no suspect hides behind another, and a failure in both rounds has two witnesses. Where the number
of nodes is odd, the one that is left over meets another of the trusted half in the same round. Up to `ALL_PAIRS` nodes
are so few that the second round has all pairs that the first had not, so that no link is left out: 28 at most.

A node takes part in one test at a time, or the tests would slow each other: `waves` cuts pairs accordingly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Self

# No id of a node has two dashes behind each other.
_LINK: Final = "--"
ALL_PAIRS: Final = 8


@dataclass(frozen=True, slots=True, order=True)
class Pair:
    """Two nodes; `first` is the one whose id is smaller."""

    first: str
    second: str

    @classmethod
    def of(cls, one: str, other: str) -> Self:
        """The pair of these nodes, whichever is named first."""
        return cls(*sorted((one, other)))

    @property
    def link(self) -> str:
        """What the connection between the two is called."""
        return f"{self.first}{_LINK}{self.second}"

    @property
    def nodes(self) -> tuple[str, str]:
        """Both."""
        return self.first, self.second

    def partner(self, node: str) -> str:
        """The other one."""
        return self.second if node == self.first else self.first


def is_link(part: str) -> bool:
    """Whether the part is a connection between two nodes, by its name."""
    return _LINK in part


def screening(nodes: Iterable[str], suspicion: Mapping[str, float], number: int) -> tuple[Pair, ...]:
    """Pairs of the first (0) or second (1) round; none where there is one node."""
    ranked = sorted(nodes, key=lambda node: (-suspicion.get(node, 0.0), node))
    half = len(ranked) // 2
    suspicious, trusted = ranked[:half], ranked[half:]
    if not suspicious:
        return ()
    partners = [trusted[(place + number) % len(trusted)] for place in range(half)]
    if number == 1 and 2 < len(ranked) <= ALL_PAIRS:
        first = screening(ranked, suspicion, 0)
        every = (Pair.of(one, other) for one, other in combinations(ranked, 2))
        return tuple(pair for pair in every if pair not in first)
    pairs = [Pair.of(one, other) for one, other in zip(suspicious, partners, strict=True)]
    return (*pairs, *_left_over(trusted, partners, number))


def _left_over(trusted: Sequence[str], met: Collection[str], number: int) -> tuple[Pair, ...]:
    """Of an odd number one is left over: in round 0 the last, in round 1 the first of the trusted half."""
    left = [node for node in trusted if node not in met]
    if not left:
        return ()
    others = [node for node in trusted if node != left[0]]
    return (Pair.of(left[0], others[number % len(others)]),)


def waves(pairs: Iterable[Pair], place_of: Mapping[str, str]) -> tuple[tuple[Pair, ...], ...]:
    """The pairs in as few groups as come of taking each as early as the places of both nodes are free.

    Nodes that are shares of one machine have the same place.
    """
    groups: list[tuple[set[str], list[Pair]]] = []
    for pair in pairs:
        places = {place_of.get(node, node) for node in pair.nodes}
        free = next((group for group in groups if group[0].isdisjoint(places)), None)
        if free is None:
            free = (set(), [])
            groups.append(free)
        free[0].update(places)
        free[1].append(pair)
    return tuple(tuple(group) for _busy, group in groups)
