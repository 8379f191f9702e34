"""The search for bad nodes and links, on worlds with known faults."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from services.diagnoser.domain.beliefs import Belief
from services.diagnoser.domain.blame import PairOutcome
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.search import CONFIRMATIONS, SCREENING_ROUNDS, Search

Fails = Callable[[Pair], bool]


def names(count: int) -> tuple[str, ...]:
    return tuple(f"n-{number}" for number in range(count))


def searched(nodes: tuple[str, ...], fails: Fails, known: dict[str, Belief] | None = None) -> Search:
    search = Search(nodes, known or {})
    while pairs := search.next_pairs():
        search = search.with_round([PairOutcome(pair, "slow" if fails(pair) else "") for pair in pairs])
    return search


def reds(search: Search) -> list[str]:
    return [node for node in search.nodes if search.colour(node) == "red"]


def ambers(search: Search) -> list[str]:
    return [node for node in search.nodes if search.colour(node) == "amber"]


@pytest.mark.parametrize("count", [3, 4, 7, 8, 64])
def test_a_bad_node_is_red_and_nobody_else_is_anything(count: int) -> None:
    search = searched(names(count), lambda pair: "n-1" in pair.nodes)
    assert (reds(search), ambers(search)) == (["n-1"], [])


def test_several_bad_nodes_are_all_found() -> None:
    bad = {"n-1", "n-2", "n-9"}
    assert reds(searched(names(16), lambda pair: bool(bad & set(pair.nodes)))) == ["n-1", "n-2", "n-9"]


def test_a_bad_link_is_told_from_its_nodes() -> None:
    bad = Pair.of("n-0", "n-4")
    search = searched(names(8), lambda pair: pair == bad)
    assert search.link_colour(bad) == "red"
    assert reds(search) == []


def test_a_bad_link_that_explains_all_failures_ends_the_search() -> None:
    bad = Pair.of("n-0", "n-3")
    search = searched(names(4), lambda pair: pair == bad)
    own = [test for test in search.tests if "n-0" in test.pair.nodes]
    assert search.link_colour(bad) == "red"
    assert len(own) < SCREENING_ROUNDS + CONFIRMATIONS


def test_without_suspects_the_search_ends_after_the_screening() -> None:
    search = searched(names(8), lambda _pair: False)
    assert len(search.rounds) == SCREENING_ROUNDS
    assert (reds(search), ambers(search)) == ([], [])


def test_links_that_are_settled_are_not_screened_and_where_all_are_there_is_nothing_to_search() -> None:
    nodes = names(4)
    every = frozenset(Pair.of(one, other).link for one in nodes for other in nodes if one < other)
    assert Search(nodes, settled=every).next_pairs() == ()
    unsettled = Pair.of("n-1", "n-2")
    search = Search(nodes, settled=every - {unsettled.link})
    assert search.next_pairs() == (unsettled,)
    passed = search.with_round([PairOutcome(unsettled)])
    assert passed.next_pairs() == ()


def test_who_fails_on_the_only_new_link_is_confirmed_beside_sound_nodes_that_were_not_screened() -> None:
    nodes = names(6)
    sound = frozenset(nodes) - {"n-5"}
    settled = frozenset(Pair.of(one, other).link for one in sound for other in sound if one < other)
    search = Search(nodes, settled=settled, sound=sound)
    while pairs := search.next_pairs():
        search = search.with_round([PairOutcome(pair, "slow" if "n-5" in pair.nodes else "") for pair in pairs])
    assert (reds(search), ambers(search)) == (["n-5"], [])


def test_of_two_nodes_that_fail_together_neither_is_red_and_both_are_avoided() -> None:
    search = searched(names(2), lambda _pair: True)
    assert (reds(search), ambers(search)) == ([], ["n-0", "n-1"])


def test_of_two_nodes_the_one_that_failed_before_is_red() -> None:
    known = {"n-0": Belief().after(fails=1)}
    assert reds(searched(names(2), lambda _pair: True, known)) == ["n-0"]


def test_one_failure_by_chance_makes_nobody_red() -> None:
    dice = iter([True])
    search = searched(names(8), lambda _pair: next(dice, False))
    assert reds(search) == []


def test_a_suspect_of_the_ledger_is_confirmed_even_where_it_passes_the_screening() -> None:
    known = {"n-3": Belief().after(fails=1)}
    search = searched(names(16), lambda _pair: False, known)
    own = [test for test in search.tests if "n-3" in test.pair.nodes]
    assert len(own) == SCREENING_ROUNDS + CONFIRMATIONS
    assert search.blames["n-3"].learned.suspicion < known["n-3"].suspicion


def test_confirmations_are_made_with_trusted_nodes_and_new_ones_each_time() -> None:
    search = searched(names(16), lambda pair: pair == Pair.of("n-0", "n-8"))
    later = [test.pair for tests in search.rounds[SCREENING_ROUNDS:] for test in tests if "n-0" in test.pair.nodes]
    partners = [pair.partner("n-0") for pair in later if pair != Pair.of("n-0", "n-8")]
    assert len(set(partners)) == len(partners)


def test_on_sound_nodes_with_noise_nobody_is_red_in_fifty_runs() -> None:
    dice = random.Random(7)  # noqa: S311  # noise, no secret
    for _ in range(50):
        assert reds(searched(names(8), lambda _pair: dice.random() < 0.01)) == []


def test_a_fault_that_shows_half_of_the_time_is_mostly_found() -> None:
    dice = random.Random(5)  # noqa: S311  # noise, no secret
    found = [reds(searched(names(16), lambda pair: "n-5" in pair.nodes and dice.random() < 0.5)) for _ in range(40)]
    assert sum(each == ["n-5"] for each in found) >= 22
    assert all(set(each) <= {"n-5"} for each in found)
