"""What failed tests of pairs say of nodes and links, beside what counting all ways of being bad gives."""

from __future__ import annotations

import math
from itertools import product

import pytest

from services.diagnoser.domain.beliefs import CHANCE, SHOWS, Belief
from services.diagnoser.domain.blame import PairOutcome, blame
from services.diagnoser.domain.pairing import Pair

LINK = Pair.of("n-1", "n-2")


def outcomes_of(counts: dict[tuple[str, str], tuple[int, int]]) -> list[PairOutcome]:
    """So many tests of each pair, of which so many failed."""
    return [
        PairOutcome(Pair.of(*pair), "slow" if number < failed else "")
        for pair, (made, failed) in counts.items()
        for number in range(made)
    ]


def counted(tests: list[PairOutcome]) -> dict[str, float]:
    """How likely each part is bad, over every way in which all of them may be bad."""
    parts = sorted({part for test in tests for part in test.parts})
    ways = (0.0, *SHOWS)
    before = {part: Belief(prior=0.003 if "--" in part else 0.01).weights for part in parts}
    bad, total = dict.fromkeys(parts, 0.0), 0.0
    for world in product(range(len(ways)), repeat=len(parts)):
        shows = {part: ways[way] for part, way in zip(parts, world, strict=True)}
        likely = math.prod(before[part][way] for part, way in zip(parts, world, strict=True))
        for test in tests:
            passes = (1 - CHANCE) * math.prod(1 - shows[part] for part in test.parts)
            likely *= 1 - passes if test.failed else passes
        total += likely
        for part in parts:
            bad[part] += likely if shows[part] else 0.0
    return {part: each / total for part, each in bad.items()}


@pytest.mark.parametrize(
    "counts",
    [
        {("n-1", "n-2"): (1, 1)},
        {("n-1", "n-2"): (4, 3)},
        {("n-1", "n-2"): (2, 2), ("n-2", "n-3"): (2, 0)},
        {("n-1", "n-2"): (2, 1), ("n-2", "n-3"): (1, 1)},
    ],
)
def test_without_rings_beliefs_are_those_that_counting_gives(counts: dict[tuple[str, str], tuple[int, int]]) -> None:
    tests = outcomes_of(counts)
    found = {part: each.suspicion for part, each in blame(tests, {}).items()}
    assert found == pytest.approx(counted(tests), abs=0.002)


def test_a_link_that_fails_three_times_of_four_is_told_from_its_nodes_that_are_fine_with_others() -> None:
    fine = {(one, other): (5, 0) for one in ("n-1", "n-2") for other in ("n-3", "n-4")}
    found = blame(outcomes_of({("n-1", "n-2"): (4, 3), **fine}), {})
    assert found[LINK.link].suspicion > 0.8
    assert max(found["n-1"].suspicion, found["n-2"].suspicion) < 0.05
    assert found[LINK.link].fails > 2.5
    assert found["n-3"].fails == 0


def test_a_failure_beside_a_bad_node_says_little_of_its_partner() -> None:
    known = {"n-1": Belief().after(fails=3)}
    found = blame(outcomes_of({("n-1", "n-2"): (1, 1)}), known)
    assert found["n-2"].suspicion < 0.03
    assert blame(outcomes_of({("n-1", "n-2"): (1, 1)}), {})["n-2"].suspicion > 0.2
