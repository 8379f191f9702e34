"""Who holds what: the allocations of every gang whose end is not confirmed, and what that leaves free.

A gang is held from the moment its placement is decided until the end of its attempt is on record, whatever its
processes do meanwhile: free = capacity - everything held, gangs that are ending included. Holding and releasing are
idempotent by gang, so replaying facts does no harm. Nodes may come, change and vanish under their gangs; a node that
is over-committed by such a change simply has no room.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.scheduler.domain.nodes import Node, Request, Room, empty_room


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one replica sits: its node, what it was promised there, and its device ids."""

    role: str
    index: int
    node: str
    request: Request
    devices: tuple[str, ...] = ()


class Ledger:
    """Nodes by id and the seats that gangs hold on them."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes: dict[str, Node] = {}
        self._held: dict[str, tuple[Seat, ...]] = {}
        self._on_node: defaultdict[str, dict[tuple[str, str, int], Seat]] = defaultdict(dict)
        self._rooms: dict[str, Room] = {}
        self.set_nodes(nodes)

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self._nodes

    @property
    def held(self) -> Mapping[str, tuple[Seat, ...]]:
        """Seats by gang."""
        return self._held

    @property
    def rooms(self) -> Mapping[str, Room]:
        """What is free now, by node id."""
        return self._rooms

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Take a new inventory; what is held stays held."""
        self._nodes = {node.id: node for node in sorted(nodes, key=lambda node: node.id)}
        self._rooms = {node_id: self._count(node_id) for node_id in self._nodes}

    def hold(self, gang: str, seats: Iterable[Seat]) -> None:
        """Put the gang's seats down, unless it has some already."""
        if gang in self._held:
            return
        self._held[gang] = tuple(seats)
        for seat in self._held[gang]:
            self._on_node[seat.node][gang, seat.role, seat.index] = seat
        self._recount(self._held[gang])

    def release(self, gang: str) -> None:
        """Give back what the gang held, if anything."""
        seats = self._held.pop(gang, ())
        for seat in seats:
            del self._on_node[seat.node][gang, seat.role, seat.index]
        self._recount(seats)

    def _recount(self, seats: tuple[Seat, ...]) -> None:
        for node_id in {seat.node for seat in seats} & self._nodes.keys():
            self._rooms[node_id] = self._count(node_id)

    def _count(self, node_id: str) -> Room:
        room = empty_room(self._nodes[node_id])
        for seat in self._on_node[node_id].values():
            room = room.without(seat.request, seat.devices)
        return room
