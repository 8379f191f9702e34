"""How large nodes are, told in few lines."""

from __future__ import annotations

from dataclasses import replace

from services.scheduler.domain.capacity import SHAPES_MAX, shape_documents
from tests.support.cluster import GIB, POOLS, node


def test_nodes_of_one_kind_are_one_shape_though_their_memory_differs_by_a_little():
    few = [replace(node(f"{number}", gpus=2), memory_bytes=32 * GIB - number) for number in range(3)]
    assert shape_documents([*few, node("x", cores=4, labels={"team": "x"})], POOLS) == [
        {"pools": ["public"], "nodes": 3, "cpuMillis": 8000, "memoryBytes": 32 * GIB, "gpus": {"A100": 2}},
        {"pools": ["public", "team"], "nodes": 1, "cpuMillis": 4000, "memoryBytes": 32 * GIB, "gpus": {}},
    ]


def test_of_too_many_kinds_nothing_is_said():
    assert shape_documents([node(f"{number}", cores=number + 1) for number in range(SHAPES_MAX + 1)], POOLS) == []
