"""One machine as a small cluster."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.split import Split


def test_more_switches_than_stand_under_them_are_a_problem():
    assert Split(2, leaves=3).problem == "3 leaves are more than the 2 nodes that stand under them"
    assert Split(4, leaves=1, spines=2).problem == "2 spines are more than the 1 leaves that stand under them"
    assert Split(2, spines=1).problem == "1 spines are more than the 0 leaves that stand under them"
    assert not Split(4, leaves=4, spines=4).problem
    assert not Split().problem


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64))
def test_every_switch_has_nodes_and_a_leaf_stands_under_one_spine(nodes: int, leaves: int, spines: int):
    split = Split(nodes, min(leaves, nodes), min(leaves, nodes, spines))
    spines_of = defaultdict(set)
    for number in range(nodes):
        labels = split.labels(number)
        spines_of[labels["leaf"]].add(labels["spine"])
    assert len(spines_of) == split.leaves
    assert all(len(above) == 1 for above in spines_of.values())
    assert len(set.union(*spines_of.values())) == split.spines
