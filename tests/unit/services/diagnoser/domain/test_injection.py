"""How pretended faults are written, and what is said of those that are not."""

from __future__ import annotations

import pytest

from services.diagnoser.domain.injection import changed_bandwidth, pretends_failure, read_injections
from services.diagnoser.domain.pairing import Pair
from shared.errors import InvalidInputError

IDS = {"gpu-node-1": "n-1", "gpu-node-2": "n-2", "n-1": "n-1", "n-2": "n-2"}


def test_a_link_of_nodes_whose_names_have_dashes_is_cut_where_two_nodes_come_out() -> None:
    (fault,) = read_injections(["slow-link:gpu-node-1-gpu-node-2:0.3"], IDS)
    assert (fault.kind, fault.nodes, fault.amount) == ("slow-link", ("n-1", "n-2"), 0.3)
    assert changed_bandwidth(Pair.of("n-2", "n-1"), [fault]) == 0.3
    assert changed_bandwidth(Pair.of("n-2", "n-3"), [fault]) == 1.0


def test_a_flaky_node_fails_its_part_of_the_tests() -> None:
    faults = read_injections(["flaky:gpu-node-1:0.25"], IDS)
    assert pretends_failure(Pair.of("n-1", "n-2"), faults, lambda: 0.2)
    assert not pretends_failure(Pair.of("n-1", "n-2"), faults, lambda: 0.25)
    assert not pretends_failure(Pair.of("n-2", "n-3"), faults, lambda: 0.2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("meteor:n-1", "there is no fault 'meteor'; there are slow-link, flaky"),
        ("flaky:n-1", "write it as flaky:NODE:PART"),
        ("flaky:n-9:0.5", "node 'n-9' is not diagnosed; there are gpu-node-1"),
        ("flaky:n-1:often", "'often' is no number"),
        ("flaky:n-1:2", "2 is no part; give a number over 0 and up to 1"),
        ("slow-link:n-1-n-9:0.5", "'n-1-n-9' are no two nodes of this diagnosis with a dash between"),
    ],
)
def test_what_cannot_be_pretended_is_refused_with_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_injections([text], IDS)
    assert said in refused.value.violations[0].message
