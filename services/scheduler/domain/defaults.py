"""What a new cluster offers before an admin has said anything: a public pool with every node, and instance types.

The first cluster's pool is called `public`, that of another one `public-<cluster>`. Types have the same names
everywhere: one that there is already is offered in the new pool, too.

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


def public_pool(cluster: str, *, is_first: bool) -> str:
    """Name of the pool that a cluster gets."""
    return PUBLIC_POOL if is_first else f"{PUBLIC_POOL}-{cluster}"


def default_documents(cluster: str, nodes: Iterable[Node], *, is_first: bool = True) -> tuple[CatalogDocument, ...]:
    """Pool and instance types for a cluster with these nodes."""
    name = public_pool(cluster, is_first=is_first)
    pool = {"apiVersion": _API_VERSION, "kind": "Pool", "metadata": {"name": name}, "spec": {"cluster": cluster}}
    cpu_types = (_instance_type(*each, pool=name) for each in _CPU_TYPES)
    return (Pool.model_validate(pool), *cpu_types, *_gpu_types(nodes, name))


def _gpu_types(nodes: Iterable[Node], pool: str) -> Iterator[InstanceType]:
    """For each model, the types that the node with the most GPUs of it can hold."""
    largest: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda node: (-len(node.devices), node.id)):
        for device in node.devices:
            largest.setdefault(device.model, node)
    for model, node in sorted(largest.items()):
        there = sum(device.model == model for device in node.devices)
        for count in (1 << power for power in range(there.bit_length())):
            yield _gpu_type(model, count, node, pool)


def _gpu_type(model: str, count: int, node: Node, pool: str) -> InstanceType:
    share = len(node.devices)
    cpu_m = max(node.cpu_m * count // share // 100 * 100, 100)
    memory = max(node.memory_bytes * count // share // MIB * MIB, MIB)
    name = f"gpu-{re.sub(r'[^a-z0-9]+', '-', model.lower()).strip('-') or 'any'}-{count}"
    gpu: dict[str, object] = {"model": model, "count": count}
    return _instance_type(name, cpu_m, memory, count * _MICROS_PER_GPU_HOUR, pool=pool, gpu=gpu)


def _instance_type(
    name: str, cpu_m: int, memory_bytes: int, price_micros: int, *, pool: str, gpu: dict[str, object] | None = None
) -> InstanceType:
    spec = {
        "cpu": format_cpu(cpu_m),
        "memory": format_memory(memory_bytes),
        "pools": [pool],
        "pricePerHour": format_price(price_micros),
    }
    document = {"apiVersion": _API_VERSION, "kind": "InstanceType", "metadata": {"name": name}}
    return InstanceType.model_validate(document | {"spec": spec | ({"gpu": gpu} if gpu else {})})
