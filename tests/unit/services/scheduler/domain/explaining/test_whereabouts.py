"""Why a placed gang is where it is."""

from __future__ import annotations

from services.scheduler.domain.explaining.whereabouts import whereabouts
from tests.support.cluster import ask, columns, node

LEAVES = [node(f"{leaf}{number}", labels={"leaf": leaf, "spine": "s"}) for leaf in "xyz" for number in range(2)]


def why(*nodes: str, replicas: int, free=None):
    return whereabouts((ask(replicas),), [f"n-{name}" for name in nodes], free or columns(LEAVES))


def test_on_one_node_the_others_that_could_hold_it_are_counted():
    place = why("x0", replicas=8)
    assert (place.level, place.could, place.total, place.spare, place.tighter) == ("node", 6, 6, 0, 0)
    assert place.text == (
        "on one node: 5 of the 5 others could hold it, too; the tightest fit, with room for 0 more replicas"
    )


def test_on_one_leaf_tighter_leaves_are_told():
    free = columns(LEAVES)
    free.cpu_m[free.layout.row_of["n-y0"]] -= 2000
    place = why("x0", "x1", replicas=12, free=free)
    assert (place.level, place.nodes, place.could, place.tighter) == ("leaf", 2, 3, 1)
    assert "1 of them are a tighter fit by now" in place.text


def test_over_leaves_of_one_spine_and_over_everything():
    assert why("x0", "x1", "y0", replicas=20).level == "spine"
    far = [*LEAVES, node("q", labels={"leaf": "q", "spine": "other"})]
    assert why("x0", "q", replicas=16, free=columns(far)).level == "cluster"


def test_nodes_without_labels_are_no_leaf_and_count_as_none():
    bare = [node(name) for name in ("a", "b", "c")]
    place = why("a", "b", replicas=16, free=columns(bare))
    assert (place.level, place.text) == (
        "cluster",
        "spread over 2 nodes: no leaf and no spine that has a name holds all of it",
    )
    place = why("y0", "y1", replicas=16, free=columns([*LEAVES, *bare]))
    assert (place.level, place.could, place.total) == ("leaf", 3, 3)


def test_nodes_that_are_gone_are_not_judged():
    assert why("x0", "moon", replicas=9) is None
    assert why(replicas=1) is None
