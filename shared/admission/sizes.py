"""What can never fit: roles that are larger than their pool with nothing else running, and the most that would fit.

The scheduler says in the cluster's document how large its nodes are. A pool of which it says nothing, as one without
nodes, is not judged: jobs wait there, and `explain` tells what for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shared.catalog import Cluster
from shared.catalog.places import NodeShape
from shared.documents.fields import shown
from shared.errors import Violation
from shared.events import ResolvedRole
from shared.units import format_bytes

PODS_MAX: Final = 1 << 20
"""More than any node takes: it sets no limit."""


def size_violations(index: int, role: ResolvedRole, replicas: int, cluster: Cluster) -> Iterator[Violation]:
    """What is wrong with the size of a role."""
    shapes = [shape for shape in cluster.spec.shapes if role.pool_name in shape.pools]
    most = sum(shape.nodes * holds(shape, role) for shape in shapes)
    if not shapes or most >= replicas:
        return
    if most:
        sentence = (
            f"pool {shown(role.pool_name)} holds at most {most} replicas of {role.instance_type}, with nothing else "
            f"running there; give at most {most}"
        )
        yield Violation(f"/spec/roles/{index}/replicas", "never-fits", sentence)
    else:
        sentence = (
            f"no node of pool {shown(role.pool_name)} is as large as a replica of {role.instance_type} "
            f"({amounts_text(role.cpu_millis, role.memory_bytes, role.gpu_count)}); the largest has {_largest(shapes)}"
        )
        yield Violation(f"/spec/roles/{index}/instanceType", "never-fits", sentence)


def holds(shape: NodeShape, role: ResolvedRole) -> int:
    """How many replicas of the role an empty node of this shape holds."""
    held = min(shape.cpu_millis // role.cpu_millis, shape.memory_bytes // role.memory_bytes, pods_of(shape))
    return min(held, gpus_of(shape, role.gpu_model) // role.gpu_count) if role.gpu_count else held


def pods_of(shape: NodeShape) -> int:
    """How many replicas a node of this shape takes whatever their size."""
    return PODS_MAX if shape.pods is None else shape.pods


def gpus_of(shape: NodeShape, model: str | None) -> int:
    """GPUs of a node of this shape: of one model, or all."""
    return shape.gpus.get(model, 0) if model else sum(shape.gpus.values())


def _largest(shapes: list[NodeShape]) -> str:
    largest = max(shapes, key=lambda shape: (gpus_of(shape, None), shape.cpu_millis, shape.memory_bytes))
    return amounts_text(largest.cpu_millis, largest.memory_bytes, gpus_of(largest, None))


def amounts_text(cpu_millis: int, memory_bytes: int, gpus: int, pods: int = 0) -> str:
    """Amounts in words, of which cores and memory are always told."""
    cores = f"{cpu_millis / 1000:g} {'core' if cpu_millis == 1000 else 'cores'}"
    parts = [cores, f"{format_bytes(memory_bytes)} of memory"]
    counted = [f"{count} {name}" for count, name in ((gpus, "GPUs"), (pods, "pods")) if count]
    return ", ".join([*parts, *counted])
