"""Which partitions an instance of the service takes: as many as every other, by its place among their names."""

from __future__ import annotations

from collections.abc import Sequence


def share_of(instance: str, instances: Sequence[str], partitions: int) -> frozenset[int]:
    """The partitions of one instance; all instances that see the same names share them without a word."""
    names = sorted({*instances, instance})
    place = names.index(instance)
    return frozenset(range(place, partitions, len(names)))
