"""How large a cluster's nodes are, pool by pool, as the catalog tells it to whoever judges sizes of jobs.

Nodes of one kind are one shape. A domain is what one leaf or spine has: so many nodes of each shape, told once however
many domains are alike; a node alone is a domain of either level. Memory is rounded up to whole GiB, since machines of
one kind differ by a little: a shape may promise a bit too much, and never too little. Where there are too many kinds of
nodes, or of domains, nothing is said of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from services.scheduler.domain.gang import Level, Pool
from services.scheduler.domain.nodes import SLOTS_MAX, Node
from services.scheduler.domain.views import pools_of_node
from shared.node_labels import LEAF_LABEL, SPINE_LABEL
from shared.units import GIB

SHAPES_MAX: Final = 256
# Parts of domains: a domain has one for each shape of its nodes. They bound the size of the document.
DOMAIN_PARTS_MAX: Final = 1024

_Shape = tuple[tuple[str, ...], int, int, tuple[tuple[str, int], ...], int]


def capacity_document(nodes: Iterable[Node], pools: Mapping[str, Pool]) -> dict[str, Any]:
    """`spec.shapes` and `spec.domains` of the cluster's document."""
    shaped = [(node, _shape(node.whole(), pools)) for node in nodes]
    shapes = sorted(Counter(shape for _, shape in shaped).items())
    if len(shapes) > SHAPES_MAX:
        return {"shapes": [], "domains": []}
    number_of = {shape: number for number, (shape, _) in enumerate(shapes)}
    numbered = [(node, number_of[shape]) for node, shape in shaped]
    domains = [domain for level in Level for domain in _domains(level, numbered)]
    return {
        "shapes": [_shape_document(shape, count) for shape, count in shapes],
        "domains": domains if sum(len(each["nodes"]) for each in domains) <= DOMAIN_PARTS_MAX else [],
    }


def _shape(node: Node, pools: Mapping[str, Pool]) -> _Shape:
    names = tuple(sorted(pools_of_node(node, pools)))
    gpus = Counter(device.model for device in node.devices)
    return names, node.cpu_m, -(-node.memory_bytes // GIB) * GIB, tuple(sorted(gpus.items())), node.slots


def _shape_document(shape: _Shape, count: int) -> dict[str, Any]:
    names, cpu_m, memory_bytes, gpus, slots = shape
    limit = {"pods": slots} if slots < SLOTS_MAX else {}
    size = {"cpuMillis": cpu_m, "memoryBytes": memory_bytes, "gpus": dict(gpus), **limit}
    return {"pools": list(names), "nodes": count, **size}


def _domains(level: Level, numbered: Iterable[tuple[Node, int]]) -> list[dict[str, Any]]:
    """What domains of the level have, by the numbers of shapes; each kind of domain once."""
    members: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    kinds: set[tuple[tuple[int, int], ...]] = set()
    for node, number in numbered:
        kinds.add(((number, 1),))
        spine, leaf = node.labels.get(SPINE_LABEL, ""), node.labels.get(LEAF_LABEL, "")
        if name := (leaf if level is Level.LEAF else spine):
            members[spine, name][number] += 1
    kinds |= {tuple(sorted(counts.items())) for counts in members.values()}
    return [{"level": level, "nodes": {str(number): count for number, count in kind}} for kind in sorted(kinds)]
