"""What a new platform offers before an admin has said anything: a public pool with every node, and instance types.

The types are CPU sizes, and for every GPU model that a node has, one type for each power of two of its GPUs with an
equal share of that node's cores and memory. Prices are examples, meant to be edited. A name that was ever used, and be
it by something deleted since, is not made again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from services.scheduler.domain.nodes import Node
from shared.catalog import CatalogDocument, InstanceType, Pool
from shared.catalog.fields import format_cpu, format_memory, format_price
from shared.units import GIB, MIB

PUBLIC_POOL: Final = "public"
_API_VERSION: Final = "trainmaster/v1"
_MICROS_PER_GPU_HOUR: Final = 1_000_000

# name, millicores, memory, millionths of the currency an hour
_CPU_TYPES: Final = (
    ("cpu-tiny", 250, 256 * MIB, 10_000),
    ("cpu-small", 1000, 1536 * MIB, 40_000),
    ("cpu-medium", 2000, 4 * GIB, 80_000),
    ("cpu-large", 4000, 8 * GIB, 160_000),
    ("cpu-xlarge", 8000, 16 * GIB, 320_000),
)


def default_documents(cluster: str, nodes: Iterable[Node]) -> tuple[CatalogDocument, ...]:
    """Pool and instance types for a cluster with these nodes."""
    pool = {"apiVersion": _API_VERSION, "kind": "Pool", "metadata": {"name": PUBLIC_POOL}, "spec": {"cluster": cluster}}
    cpu_types = (_instance_type(name, cpu_m, memory, price) for name, cpu_m, memory, price in _CPU_TYPES)
    return (Pool.model_validate(pool), *cpu_types, *_gpu_types(nodes))


def _gpu_types(nodes: Iterable[Node]) -> Iterator[InstanceType]:
    """For each model, the types that the node with the most GPUs of it can hold."""
    largest: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda node: (-len(node.devices), node.id)):
        for device in node.devices:
            largest.setdefault(device.model, node)
    for model, node in sorted(largest.items()):
        there = sum(device.model == model for device in node.devices)
        for count in (1 << power for power in range(there.bit_length())):
            yield _gpu_type(model, count, node)


def _gpu_type(model: str, count: int, node: Node) -> InstanceType:
    share = len(node.devices)
    cpu_m = max(node.cpu_m * count // share // 100 * 100, 100)
    memory = max(node.memory_bytes * count // share // MIB * MIB, MIB)
    name = f"gpu-{re.sub(r'[^a-z0-9]+', '-', model.lower()).strip('-') or 'any'}-{count}"
    return _instance_type(name, cpu_m, memory, count * _MICROS_PER_GPU_HOUR, {"model": model, "count": count})


def _instance_type(
    name: str, cpu_m: int, memory_bytes: int, price_micros: int, gpu: dict[str, object] | None = None
) -> InstanceType:
    spec = {
        "cpu": format_cpu(cpu_m),
        "memory": format_memory(memory_bytes),
        "pools": [PUBLIC_POOL],
        "pricePerHour": format_price(price_micros),
    }
    document = {"apiVersion": _API_VERSION, "kind": "InstanceType", "metadata": {"name": name}}
    return InstanceType.model_validate(document | {"spec": spec | ({"gpu": gpu} if gpu else {})})
