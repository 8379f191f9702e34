"""The whole procedure on busy machines, whose bandwidths scatter: a slow link is found, and nothing without a fault."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from services.diagnoser.domain.book import Book
from services.diagnoser.domain.examination import Examination
from shared.diagnosis_wire import TestRequest
from tests.support.ledgers import remember
from tests.support.probes import answer_of
from tests.unit.services.diagnoser.test_procedure import FOUR, Cluster, examined, told, verdicts

RUNS = 20


@dataclass
class Busy(Cluster):
    """Machines on which other work comes and goes: it slows all pairs alike, and each test by chance."""

    noise: float = 0.02
    scatter: float = 0.14
    load: float = 1.0

    def pair(self, request: TestRequest) -> Mapping[str, float]:
        if request.round not in self.pairs:
            self.load = min(max(self.load * math.exp(self._dice.gauss(0, 0.05)), 0.3), 1.0)
            part = self.load * math.exp(self._dice.gauss(0, self.scatter))
            figures = answer_of(request).figures
            slower = {"bandwidthMbS": figures["bandwidthMbS"] * part, "latencyUs": figures["latencyUs"] / part}
            self.pairs[request.round] = slower
        return self.pairs[request.round]


async def run(seed: int, *inject: str, book: Book | None = None, scatter: float = 0.14) -> Examination:
    return await examined(Busy(seed=seed, scatter=scatter), FOUR, *inject, book=book, thorough=True)


def links(examination: Examination) -> dict[tuple[str, str], str]:
    """Links that are not green."""
    pairs = (pair for node in FOUR for pair in examination.pairs(node))
    return {(pair.first, pair.second): pair.verdict for pair in pairs if pair.verdict != "green"}


@pytest.mark.parametrize(("scatter", "least"), [(0.08, RUNS - 1), (0.14, RUNS - 4)])
async def test_a_link_at_sixty_percent_is_found_and_named_without_a_floor(scatter: float, least: int) -> None:
    found: Counter[tuple[str, str]] = Counter()
    for seed in range(RUNS):
        examination = await run(seed, "slow-link:n-1-n-3:0.6", scatter=scatter)
        found.update({pair: 1 for pair, verdict in links(examination).items() if verdict == "red"})
        if ("n-1", "n-3") in links(examination):
            assert "the link to n-3 is" in told(examination, "n-1")
        assert "red" not in verdicts(examination).values()
    assert set(found) == {("n-1", "n-3")}
    assert found["n-1", "n-3"] >= least


@dataclass
class Crowded(Cluster):
    """Shares of a machine whose processors are mostly taken: half of the tests lose up to four fifths of theirs."""

    def pair(self, request: TestRequest) -> dict[str, float]:
        if request.round not in self.pairs:
            dice = self._dice
            part = dice.uniform(0.95, 1.0) if dice.random() < 0.5 else dice.uniform(0.2, 1.0)
            figures = answer_of(request).figures
            self.pairs[request.round] = {"bandwidthMbS": figures["bandwidthMbS"] * part, "latencyUs": 50.0}
        return self.pairs[request.round]


async def test_on_a_crowded_machine_a_link_at_sixty_percent_is_mostly_found_and_nothing_else() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for seed in range(RUNS):
        examination = await examined(Crowded(seed=seed), FOUR, "slow-link:n-1-n-3:0.6", thorough=True)
        found.update({pair: 1 for pair, verdict in links(examination).items() if verdict == "red"})
        assert "red" not in verdicts(examination).values()
    assert set(found) == {("n-1", "n-3")}
    assert found["n-1", "n-3"] >= RUNS - 3


async def test_on_a_crowded_machine_without_a_fault_nothing_is_red_in_fifty_runs() -> None:
    book, seen = Book(), Counter[str]()
    for seed in range(50):
        examination = await examined(Crowded(seed=seed), FOUR, book=book, thorough=True)
        seen.update(verdict or "" for verdict in verdicts(examination).values())
        assert "red" not in links(examination).values()
        remember(book, examination, FOUR)
    assert seen["red"] == 0


async def test_a_low_pair_of_the_report_says_how_often_it_was_compared_and_what_came_of_it() -> None:
    examination = await run(3, "slow-link:n-1-n-3:0.6")
    pairs = {(pair.first, pair.second): pair.compared for node in FOUR for pair in examination.pairs(node)}
    assert "times in turns, slow" in pairs["n-1", "n-3"]
    two = await examined(Busy(seed=2, scatter=0.5), FOUR[:2], thorough=True)
    assert {pair.compared for pair in two.pairs("n-1")} <= {
        "",
        "not compared in turns: fewer than 3 tests of pairs gave a bandwidth",
    }


async def test_the_report_says_what_the_slow_pair_was_measured_in_turns_with() -> None:
    examination = await run(3, "slow-link:n-1-n-3:0.6")
    (pair,) = (pair for pair in examination.pairs("n-1") if pair.second == "n-3")
    assert "pair bandwidth is" in pair.why
    assert "times measured in turns" in pair.why


async def test_a_node_all_of_whose_links_are_slow_is_bad_and_its_links_are_not() -> None:
    slow = [f"slow-link:n-2-{other}:0.5" for other in FOUR if other != "n-2"]
    examination = await run(1, *slow, scatter=0.08)
    assert verdicts(examination) == dict.fromkeys(FOUR, "green") | {"n-2": "red"}


async def test_without_a_fault_nothing_is_red_in_fifty_runs_and_hardly_anything_amber() -> None:
    book, seen = Book(), Counter[str]()
    for seed in range(50):
        examination = await run(seed, book=book, scatter=0.2)
        seen.update({max(verdicts(examination).values(), key=["green", "amber", "red"].index) or "": 1})
        assert links(examination) == {}
        remember(book, examination, FOUR)
    assert seen["red"] == 0
    assert seen["green"] >= 48
