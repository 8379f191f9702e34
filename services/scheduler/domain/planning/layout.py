"""What does not change while nodes stay as they are: which row is which node, what it has, and the pools it is in.

Rows are in the order of cluster, spine, leaf and id, so that every topology domain is one run of rows and its capacity
one segment sum. A leaf is a leaf of its spine: two spines may each have a leaf `1`. Nodes without the label share one
domain, which is good enough to prefer and not good enough to promise: `named` is False there.

Devices of a node are bits of one 64-bit number, in the node's own order; those after the 64th are given to nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from services.scheduler.domain.gang import Level, Pool
from services.scheduler.domain.nodes import Node, NodeState
from shared.node_labels import LEAF_LABEL, SPINE_LABEL

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

DEVICES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of one level as runs of rows: `starts[i]` up to `stops[i]`."""

    starts: Ints
    stops: Ints
    named: Flags

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.starts)


class Layout:
    """Nodes as rows, and the pools that they are in."""

    def __init__(self, nodes: Iterable[Node], pools: Mapping[str, Pool]) -> None:
        self.nodes = tuple(sorted(nodes, key=_place))
        self.pools = dict(pools)
        self.row_of = {node.id: row for row, node in enumerate(self.nodes)}
        self.cpu_m = _column(node.cpu_m for node in self.nodes)
        self.memory_bytes = _column(node.memory_bytes for node in self.nodes)
        self.slots = _column(node.slots for node in self.nodes)
        self.devices = _bits(self.nodes, lambda _: True)
        self.ready = np.array([node.state is NodeState.READY for node in self.nodes], dtype=np.bool_)
        self.gpus = np.bitwise_count(self.devices).astype(np.int64)
        self.domains = {Level.LEAF: _domains(self.nodes, _leaf), Level.SPINE: _domains(self.nodes, _spine)}
        self.number_of = {level: _numbers(domains) for level, domains in self.domains.items()}
        self.suspects = frozenset(row for row, node in enumerate(self.nodes) if node.suspect)
        self.largest = self._largest()
        self._members: dict[str, Flags] = {}
        self._usable: dict[str, Ints] = {}
        self._totals: dict[str, tuple[int, int, int]] = {}
        self._models: dict[str, Bits] = {}
        self._device_ids: dict[int, tuple[str, ...]] = {}
        self._rows_named: defaultdict[str, list[int]] = defaultdict(list)
        for row, node in enumerate(self.nodes):
            self._rows_named[node.id].append(row)
            if node.name != node.id:
                self._rows_named[node.name].append(row)

    def __len__(self) -> int:
        return len(self.nodes)

    def with_pools(self, pools: Mapping[str, Pool]) -> Layout:
        """The same nodes in other pools."""
        other = object.__new__(Layout)
        other.__dict__.update(self.__dict__)
        other.pools, other._members, other._usable, other._totals = dict(pools), {}, {}, {}
        return other

    def members(self, pool: str) -> Flags:
        """Which rows are in the pool, whatever their state; none where there is no such pool."""
        if pool not in self._members:
            known = self.pools.get(pool)
            flags = [known is not None and known.has(node) for node in self.nodes]
            self._members[pool] = np.array(flags, dtype=np.bool_)
        return self._members[pool]

    def usable(self, pool: str) -> Ints:
        """1 for each row of the pool that may get new gangs, and 0 for the others."""
        if pool not in self._usable:
            self._usable[pool] = (self.members(pool) & self.ready).astype(np.int64)
        return self._usable[pool]

    def total(self, pool: str) -> tuple[int, int, int]:
        """Cores, memory and GPUs of all nodes of the pool, whatever their state."""
        if pool not in self._totals:
            rows = np.flatnonzero(self.members(pool))
            columns = (self.cpu_m, self.memory_bytes, self.gpus)
            cpu_m, memory_bytes, gpus = (int(column[rows].sum()) for column in columns)
            self._totals[pool] = cpu_m, memory_bytes, gpus
        return self._totals[pool]

    def devices_of(self, model: str) -> Bits:
        """Devices of this model on each row; all of them where no model is given."""
        if not model:
            return self.devices
        if model not in self._models:
            self._models[model] = _bits(self.nodes, lambda of_device: of_device == model)
        return self._models[model]

    def rows_named(self, names: Iterable[str]) -> list[int]:
        """Rows of the nodes with these names or ids."""
        return sorted({row for name in names for row in self._rows_named.get(name, ())})

    def device_ids(self, row: int, devices: int) -> tuple[str, ...]:
        """Ids of the devices that these bits of a row mean."""
        ids = self._device_ids.get(row)
        if ids is None:
            ids = self._device_ids[row] = tuple(device.id for device in self.nodes[row].devices[:DEVICES_MAX])
        if devices.bit_count() == len(ids):
            return ids
        chosen = []
        while devices:
            lowest = devices & -devices
            chosen.append(ids[lowest.bit_length() - 1])
            devices ^= lowest
        return tuple(chosen)

    def device_bits(self, row: int, ids: Iterable[str]) -> int:
        """The bits of these devices; ids that the node does not have mean nothing."""
        wanted = set(ids)
        known = enumerate(self.nodes[row].devices[:DEVICES_MAX]) if wanted else ()
        return sum(1 << bit for bit, device in known if device.id in wanted)

    def _largest(self) -> tuple[int, int, int]:
        """The most that any node has of cores, memory and GPUs; 1 where there is none."""
        columns = (self.cpu_m, self.memory_bytes, self.gpus)
        cpu_m, memory_bytes, gpus = (max(int(column.max(initial=1)), 1) for column in columns)
        return cpu_m, memory_bytes, gpus


def _spine(node: Node) -> tuple[str, str]:
    return node.cluster, node.labels.get(SPINE_LABEL, "")


def _leaf(node: Node) -> tuple[str, str, str]:
    return (*_spine(node), node.labels.get(LEAF_LABEL, ""))


def _place(node: Node) -> tuple[str, str, str, str]:
    return (*_leaf(node), node.id)


def _column(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _bits(nodes: tuple[Node, ...], counts: Callable[[str], bool]) -> Bits:
    def bits(node: Node) -> int:
        return sum(1 << bit for bit, device in enumerate(node.devices[:DEVICES_MAX]) if counts(device.model))

    return np.array([bits(node) for node in nodes], dtype=np.uint64)


def _domains(nodes: tuple[Node, ...], key: Callable[[Node], tuple[str, ...]]) -> Domains:
    keys = [key(node) for node in nodes]
    starts = [row for row, own in enumerate(keys) if row == 0 or own != keys[row - 1]]
    stops = [*starts[1:], len(nodes)] if starts else []
    named = [bool(keys[start][-1]) for start in starts]
    return Domains(np.array(starts, np.int64), np.array(stops, np.int64), np.array(named, np.bool_))


def _numbers(domains: Domains) -> Ints:
    """For each row the number of its domain."""
    return np.repeat(np.arange(domains.count), domains.stops - domains.starts)
