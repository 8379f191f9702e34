"""Who holds what: the allocations of every gang whose end is not confirmed, and what that leaves free.

A gang is held from the moment its placement is decided until the end of its attempt is on record, whatever its
processes do meanwhile: free = capacity - everything held, gangs that are ending included. Holding and releasing are
idempotent by gang, so replaying facts does no harm. Nodes may come, change and vanish under their gangs; a node that
is over-committed by such a change simply has no room.

What is free is kept in the column store and changed there row by row; it is built anew only for another inventory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from services.scheduler.domain.gang import Pool
from services.scheduler.domain.nodes import Node, Request, Room
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.holding import Holding, holding
from services.scheduler.domain.planning.layout import Layout


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one replica sits: its node, what it was promised there, and its device ids."""

    role: str
    index: int
    node: str
    request: Request
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Rooms(Mapping[str, Room]):
    """What is free now, by node id; each room is read from the columns when it is asked for."""

    columns: Columns

    def __getitem__(self, node_id: str) -> Room:
        return self.columns.room(self.columns.layout.row_of[node_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns.layout.row_of)

    def __len__(self) -> int:
        return len(self.columns)


@dataclass(slots=True)
class _Share:
    """What one gang holds on one node."""

    cpu_m: int = 0
    memory_bytes: int = 0
    slots: int = 0
    devices: frozenset[str] = frozenset()

    def add(self, seat: Seat) -> None:
        self.cpu_m += seat.request.cpu_m
        self.memory_bytes += seat.request.memory_bytes
        self.slots += 1
        self.devices = self.devices.union(seat.devices) if seat.devices else self.devices


class Ledger:
    """Nodes by id and the seats that gangs hold on them."""

    def __init__(self, nodes: Iterable[Node] = (), pools: Mapping[str, Pool] | None = None) -> None:
        self._held: dict[str, tuple[Seat, ...]] = {}
        self._on_node: defaultdict[str, dict[str, _Share]] = defaultdict(dict)
        self._pools: Mapping[str, Pool] = dict(pools or {})
        self._nodes: dict[str, Node] = {}
        self._holdings: dict[str, Holding] = {}
        self.set_nodes(nodes)

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self._nodes

    @property
    def held(self) -> Mapping[str, tuple[Seat, ...]]:
        """Seats by gang."""
        return self._held

    @property
    def busy_nodes(self) -> Collection[str]:
        """Nodes on which something is held, also such as are not there any more."""
        return self._on_node.keys()

    def held_on(self, node: str) -> Collection[str]:
        """Gangs that hold seats on the node."""
        return self._on_node[node].keys() if node in self._on_node else ()

    @property
    def columns(self) -> Columns:
        """What is free now; changed in place by `hold` and `release`."""
        return self._columns

    @property
    def rooms(self) -> Rooms:
        """What is free now, by node id."""
        return Rooms(self._columns)

    def holding(self, gang: str) -> Holding:
        """What the gang holds, by row of the columns."""
        if gang not in self._holdings:
            self._holdings[gang] = holding(self._parts(gang))
        return self._holdings[gang]

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Take a new inventory; what is held stays held."""
        self._nodes = {node.id: node for node in sorted(nodes, key=lambda node: node.id)}
        self._draw(Layout(self._nodes.values(), self._pools))

    def set_pools(self, pools: Mapping[str, Pool]) -> None:
        """Take other pools."""
        if pools != self._pools:
            self._pools = dict(pools)
            self._draw(self._columns.layout.with_pools(pools))

    def hold(self, gang: str, seats: Iterable[Seat]) -> None:
        """Put the gang's seats down, unless it has some already."""
        if gang in self._held:
            return
        self._held[gang] = tuple(seats)
        for seat in self._held[gang]:
            self._on_node[seat.node].setdefault(gang, _Share()).add(seat)
        self._count(self._held[gang])

    def release(self, gang: str) -> None:
        """Give back what the gang held, if anything."""
        seats = self._held.pop(gang, ())
        self._holdings.pop(gang, None)
        for node in {seat.node for seat in seats}:
            del self._on_node[node][gang]
            if not self._on_node[node]:
                del self._on_node[node]
        self._count(seats)

    def _draw(self, layout: Layout) -> None:
        self._columns = Columns.empty(layout)
        self._holdings.clear()
        self._recount(layout.row_of.keys() & self._on_node.keys())

    def _parts(self, gang: str) -> Iterator[tuple[int, int, int, int, int]]:
        layout = self._columns.layout
        for node_id in {seat.node for seat in self._held.get(gang, ())} & layout.row_of.keys():
            row, share = layout.row_of[node_id], self._on_node[node_id][gang]
            yield row, share.cpu_m, share.memory_bytes, share.slots, layout.device_bits(row, share.devices)

    def _count(self, seats: tuple[Seat, ...]) -> None:
        self._recount({seat.node for seat in seats} & self._nodes.keys())

    def _recount(self, node_ids: Iterable[str]) -> None:
        """What these nodes have free: their capacity less what every gang on them holds."""
        layout, rows, cpu_m, memory_bytes, slots, devices = self._columns.layout, [], [], [], [], []
        for node_id in node_ids:
            node, row = self._nodes[node_id], layout.row_of[node_id]
            shares = self._on_node.get(node_id, {}).values()
            rows.append(row)
            cpu_m.append(node.cpu_m - sum(share.cpu_m for share in shares))
            memory_bytes.append(node.memory_bytes - sum(share.memory_bytes for share in shares))
            slots.append(node.slots - sum(share.slots for share in shares))
            held = layout.device_bits(row, frozenset().union(*(share.devices for share in shares)))
            devices.append(int(layout.devices[row]) & ~held)
        self._columns.put(np.array(rows, np.int64), cpu_m, memory_bytes, slots, devices)
