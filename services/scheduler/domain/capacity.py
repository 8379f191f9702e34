"""How large a cluster's nodes are, pool by pool, as the catalog tells it to whoever judges sizes of jobs.

Memory is rounded up to whole GiB, since machines of one kind differ by a little: a shape may promise a bit too much,
and never too little. Where nodes are of too many kinds nothing is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from services.scheduler.domain.gang import Pool
from services.scheduler.domain.nodes import Node
from services.scheduler.domain.views import pools_of_node
from shared.units import GIB

SHAPES_MAX: Final = 256

_Shape = tuple[tuple[str, ...], int, int, tuple[tuple[str, int], ...]]


def shape_documents(nodes: Iterable[Node], pools: Mapping[str, Pool]) -> list[dict[str, Any]]:
    """`spec.shapes` of the cluster's document."""
    shapes = Counter(_shape(node.whole(), pools) for node in nodes)
    if len(shapes) > SHAPES_MAX:
        return []
    return [
        {"pools": list(names), "nodes": count, "cpuMillis": cpu_m, "memoryBytes": memory_bytes, "gpus": dict(gpus)}
        for (names, cpu_m, memory_bytes, gpus), count in sorted(shapes.items())
    ]


def _shape(node: Node, pools: Mapping[str, Pool]) -> _Shape:
    names = tuple(sorted(pools_of_node(node, pools)))
    gpus = Counter(device.model for device in node.devices)
    return names, node.cpu_m, -(-node.memory_bytes // GIB) * GIB, tuple(sorted(gpus.items()))
