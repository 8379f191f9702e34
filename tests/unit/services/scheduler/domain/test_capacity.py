"""How large nodes are, told in few lines."""

from __future__ import annotations

from dataclasses import replace

from services.scheduler.domain.capacity import DOMAIN_PARTS_MAX, SHAPES_MAX, capacity_document
from tests.support.cluster import GIB, POOLS, node


def test_nodes_of_one_kind_are_one_shape_though_their_memory_differs_by_a_little():
    few = [replace(node(f"{number}", gpus=2), memory_bytes=32 * GIB - number) for number in range(3)]
    told = capacity_document([*few, node("x", cores=4, labels={"team": "x"})], POOLS)
    assert told["shapes"] == [
        {"pools": ["public"], "nodes": 3, "cpuMillis": 8000, "memoryBytes": 32 * GIB, "gpus": {"A100": 2}},
        {"pools": ["public", "team"], "nodes": 1, "cpuMillis": 4000, "memoryBytes": 32 * GIB, "gpus": {}},
    ]


def test_how_many_pods_a_node_takes_is_told_where_there_is_a_limit():
    limited = replace(node("a"), slots=90, others_slots=20)
    told = capacity_document([limited, node("b")], POOLS)["shapes"]
    assert [shape.get("pods") for shape in told] == [110, None]


def test_of_too_many_kinds_nothing_is_said():
    nodes = [node(f"{number}", cores=number + 1) for number in range(SHAPES_MAX + 1)]
    assert capacity_document(nodes, POOLS) == {"shapes": [], "domains": []}


def test_leaves_and_spines_that_are_alike_are_told_once_and_so_is_a_node_alone():
    places = [("1", "1"), ("1", "1"), ("2", "1"), ("2", "1"), ("1", "2"), ("", "")]
    nodes = [node(f"{number}", labels={"leaf": leaf, "spine": spine}) for number, (leaf, spine) in enumerate(places)]
    assert capacity_document([*nodes, node("big", cores=64, labels={"leaf": "1", "spine": "2"})], POOLS)["domains"] == [
        {"level": "leaf", "nodes": {"0": 1}},
        {"level": "leaf", "nodes": {"0": 1, "1": 1}},
        {"level": "leaf", "nodes": {"0": 2}},
        {"level": "leaf", "nodes": {"1": 1}},
        {"level": "spine", "nodes": {"0": 1}},
        {"level": "spine", "nodes": {"0": 1, "1": 1}},
        {"level": "spine", "nodes": {"0": 4}},
        {"level": "spine", "nodes": {"1": 1}},
    ]


def test_of_too_many_kinds_of_domains_nothing_is_said():
    """Forty leaves, each with one more node of another one of forty shapes."""
    nodes = [node(f"{number}", cores=1 + number % 40, labels={"leaf": f"{number // 41}"}) for number in range(41 * 40)]
    told = capacity_document(nodes, POOLS)
    assert (len(told["shapes"]), told["domains"]) == (40, [])
    assert DOMAIN_PARTS_MAX < 40 * 40
    assert capacity_document(nodes[:41], POOLS)["domains"]
