"""Finding a place for one whole gang: every replica gets a node and its devices, or nobody gets anything.

A role is packed by best fit: the nodes with the least to spare are filled first, those with GPUs last for a role that
needs none, so that large holes stay large. For one role that is exact: it finds a place whenever there is one, because
replicas of a role are alike. Several roles are packed one after the other, the largest share of a node first; where
that fails, the other orders are tried for gangs of at most four roles. Ties are broken by node id, so the same rooms
give the same place.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from services.scheduler.domain.gang import Gang, Pool, RoleAsk
from services.scheduler.domain.ledger import Seat
from services.scheduler.domain.nodes import NodeState, Request, Room

_MAX_ROLES_TO_PERMUTE: Final = 4

Rooms = Mapping[str, Room]


def fit(gang: Gang, rooms: Rooms, pools: Mapping[str, Pool]) -> tuple[Seat, ...] | None:
    """Seats for the whole gang, in the gang's own order of roles, or None."""
    usable = eligible(gang, rooms)
    for order in _orders(gang, usable):
        seats = _fit_in_order(order, usable, pools)
        if seats is not None:
            return tuple(seat for role in gang.roles for seat in seats[role.name])
    return None


def eligible(gang: Gang, rooms: Rooms) -> dict[str, Room]:
    """Rooms of nodes that may get new gangs and that this gang does not avoid."""
    return {
        node_id: room
        for node_id, room in rooms.items()
        if room.node.state is NodeState.READY and not room.node.is_named(gang.avoided)
    }


def pool_rooms(role: RoleAsk, rooms: Rooms, pools: Mapping[str, Pool]) -> list[Room]:
    """The rooms that belong to the role's pool; none where there is no such pool."""
    pool = pools.get(role.pool)
    return [room for room in rooms.values() if pool is not None and pool.has(room.node)]


def capacity(role: RoleAsk, rooms: Rooms, pools: Mapping[str, Pool]) -> int:
    """How many replicas of the role fit, were it alone."""
    return sum(room.holds(role.request) for room in pool_rooms(role, rooms, pools))


def after(seats: Iterable[Seat], rooms: Rooms) -> dict[str, Room]:
    """The rooms once these replicas have moved in."""
    left = dict(rooms)
    for seat in seats:
        left[seat.node] = left[seat.node].without(seat.request, seat.devices)
    return left


def _orders(gang: Gang, rooms: Rooms) -> Iterator[tuple[RoleAsk, ...]]:
    largest_first = tuple(sorted(gang.roles, key=lambda role: (-_share(role.request, rooms), role.name)))
    yield largest_first
    if 1 < len(gang.roles) <= _MAX_ROLES_TO_PERMUTE:
        yield from itertools.islice(itertools.permutations(largest_first), 1, None)


def _share(request: Request, rooms: Rooms) -> float:
    """The largest part that one replica takes of the largest node, over all resources."""
    nodes = [room.node for room in rooms.values()]
    parts = [
        request.cpu_m / max((node.cpu_m for node in nodes), default=1),
        request.memory_bytes / max((node.memory_bytes for node in nodes), default=1),
        request.gpus / max((len(node.devices) or 1 for node in nodes), default=1),
    ]
    return max(parts)


def _fit_in_order(
    roles: tuple[RoleAsk, ...], rooms: Rooms, pools: Mapping[str, Pool]
) -> dict[str, tuple[Seat, ...]] | None:
    left = dict(rooms)
    seats: dict[str, tuple[Seat, ...]] = {}
    for role in roles:
        placed = _pack(role, left, pools)
        if placed is None:
            return None
        seats[role.name] = placed
    return seats


def _pack(role: RoleAsk, left: dict[str, Room], pools: Mapping[str, Pool]) -> tuple[Seat, ...] | None:
    """Place one role and take it out of `left`; None, with `left` as it was, where it does not fit."""
    candidates = [room for room in pool_rooms(role, left, pools) if room.holds(role.request)]
    if sum(room.holds(role.request) for room in candidates) < role.replicas:
        return None
    seats: list[Seat] = []
    for start in sorted(candidates, key=lambda room: _spare(room, role.request)):
        room = start
        while len(seats) < role.replicas and room.holds(role.request):
            room, devices = room.take(role.request)
            seats.append(Seat(role.name, len(seats), room.node.id, role.request, devices))
        left[room.node.id] = room
        if len(seats) == role.replicas:
            break
    return tuple(seats)


def _spare(room: Room, request: Request) -> tuple[int, int, int, str]:
    gpus = len(room.fitting_devices(request)) if request.gpus else len(room.node.devices)
    return gpus, room.cpu_m, room.memory_bytes, room.node.id
