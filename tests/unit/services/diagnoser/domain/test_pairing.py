"""Who is tested with whom."""

from __future__ import annotations

from collections import Counter

import pytest

from services.diagnoser.domain.pairing import Pair, is_link, screening, waves


def nodes(count: int) -> list[str]:
    return [f"n-{number:04d}" for number in range(count)]


def test_a_pair_is_the_same_whichever_node_is_named_first() -> None:
    assert Pair.of("n-2", "n-1") == Pair.of("n-1", "n-2")
    assert Pair.of("n-2", "n-1").partner("n-1") == "n-2"
    assert is_link(Pair.of("n-2", "n-1").link)
    assert not is_link("n-1")


@pytest.mark.parametrize("count", [3, 4, 5, 8, 9, 64, 257])
def test_two_rounds_give_every_node_two_different_partners(count: int) -> None:
    pairs = {pair for number in (0, 1) for pair in screening(nodes(count), {}, number)}
    partners = Counter(node for pair in pairs for node in pair.nodes)
    assert set(partners) == set(nodes(count))
    assert min(partners.values()) >= 2


def test_two_nodes_meet_twice_and_one_meets_nobody() -> None:
    assert screening(nodes(2), {}, 0) == screening(nodes(2), {}, 1) == (Pair("n-0000", "n-0001"),)
    assert screening(nodes(1), {}, 0) == ()


def test_a_suspect_never_meets_another_suspect() -> None:
    suspects = {"n-0003": 0.5, "n-0007": 0.4, "n-0008": 0.2}
    met = [pair for number in (0, 1) for pair in screening(nodes(10), suspects, number)]
    assert not [pair for pair in met if set(pair.nodes) <= set(suspects)]


def test_no_node_is_in_two_tests_of_a_wave() -> None:
    pairs = screening(nodes(9), {}, 0)
    cut = waves(pairs, {})
    assert sorted(pair for wave in cut for pair in wave) == sorted(pairs)
    assert [max(Counter(node for pair in wave for node in pair.nodes).values()) for wave in cut] == [1, 1]


def test_shares_of_one_machine_are_tested_one_pair_at_a_time() -> None:
    pairs = screening(nodes(8), {}, 0)
    machine_of = {node: f"m-{place // 4}" for place, node in enumerate(nodes(8))}
    assert [len(wave) for wave in waves(pairs, machine_of)] == [1, 1, 1, 1]
    assert len(waves(pairs, dict.fromkeys(nodes(8), "m-0"))) == 4


@pytest.mark.parametrize("count", [3, 4, 7, 8])
def test_of_few_nodes_every_pair_is_tested_once(count: int) -> None:
    pairs = [pair for number in (0, 1) for pair in screening(nodes(count), {}, number)]
    assert len(pairs) == len(set(pairs)) == count * (count - 1) // 2
