"""Finding a place for one whole gang: every replica gets a node and its devices, or nobody gets anything.

**Where.** A gang goes to the smallest domain that holds all of it: one node, else one leaf, else one spine, else
wherever there is room; among domains of one level to the tightest. Its `topology` moves the ends of that search: with
`soft` at `spine` leaves are not looked for, and `hard` stops at its level, where only domains that have a name count.
What does not fit one domain fills as few as can be: the largest wholly, the rest in the tightest that holds it.

**How.** Within a domain a role is packed by best fit: the nodes with the least to spare first, idle nodes last. For one
role that is exact: it finds a place whenever there is one, because replicas of a role are alike. Several roles are
packed one after the other, the largest share of a node first; where that fails, the other orders are tried for gangs of
at most four roles. Ties are broken by row, so the same columns give the same place.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from services.scheduler.domain.gang import Gang, Level, RoleAsk, Topology
from services.scheduler.domain.nodes import Request
from services.scheduler.domain.planning.columns import Columns, Count
from services.scheduler.domain.planning.layout import Bits, Ints, Layout

_MAX_ROLES_TO_PERMUTE: Final = 4
# Gangs of several roles may not fit where each role would by itself; so many of the tightest domains are tried.
_SOFT_TRIES: Final = 4
_PARTS: Final = 1_000_000_000
_ALL_LEVELS: Final = (Level.SPINE, Level.LEAF)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the replicas of one role go: `counts[i]` of them on row `rows[i]` of the layout, with those devices."""

    role: RoleAsk
    rows: tuple[int, ...]
    counts: tuple[int, ...]
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of rows, and the levels whose domains within it are worth to be kept together."""

    start: int
    stop: int
    levels: tuple[Level, ...] = ()


def fit(gang: Gang, columns: Columns) -> tuple[Place, ...] | None:
    """A place for the whole gang, roles in the gang's own order, or None; the columns stay as they are."""
    avoided = columns.layout.rows_named(gang.avoided)
    counts = [_without(columns.count(role.pool, role.request), avoided) for role in gang.roles]
    if any(count.total < role.replicas for count, role in zip(counts, gang.roles, strict=True)):
        return None
    for run in _runs(gang, counts, columns):
        places = _pack(gang, counts, columns, run, avoided)
        if places is not None:
            return places
    return None


def fit_beside(gang: Gang, survivors: Sequence[int], columns: Columns) -> tuple[Place, ...] | None:
    """A place for what is missing of a gang, in the smallest domain that has those rows of it that are left.

    A hard gang stays in its domain, or has no place.
    """
    topology, layout = gang.topology, columns.layout
    avoided = layout.rows_named(gang.avoided)
    counts = [_without(columns.count(role.pool, role.request), avoided) for role in gang.roles]
    for level, inner in _levels(topology):
        numbers = {int(layout.number_of[level][row]) for row in survivors}
        if len(numbers) == 1:
            (number,) = numbers
            domains = layout.domains[level]
            run = _Run(int(domains.starts[number]), int(domains.stops[number]), inner)
            places = _pack(gang, counts, columns, run, avoided)
            if places is not None or (topology.hard and level is topology.level):
                return places
    return None if topology.hard else fit(gang, columns)


def fits(gang: Gang, columns: Columns) -> bool:
    """Whether there is a place; for one role without hard limits that is a sum."""
    if len(gang.roles) > 1 or gang.topology.hard or gang.avoided:
        return fit(gang, columns) is not None
    (role,) = gang.roles
    return columns.count(role.pool, role.request).total >= role.replicas


def fit_one(role: RoleAsk, columns: Columns, row: int | None) -> tuple[Place, ...] | None:
    """A place for a gang of one replica on this row, the tightest that holds it; none where there is none."""
    return None if row is None else (Place(role, (row,), (1,), (columns.devices_for_one(role.request, row),)),)


def take(places: Sequence[Place], columns: Columns) -> None:
    """Take what these places hold out of the columns."""
    for place in places:
        if len(place.rows) == 1:
            columns.take_one(place.role.request, place.rows[0], place.counts[0], place.devices[0])
        else:
            devices = np.array(place.devices, dtype=np.uint64)
            columns.take(place.role.request, np.array(place.rows), np.array(place.counts), devices)


def _place(role: RoleAsk, rows: Ints, counts: Ints, devices: Bits) -> Place:
    return Place(role, tuple(rows.tolist()), tuple(counts.tolist()), tuple(devices.tolist()))


def _without(count: Count, avoided: list[int]) -> Count:
    if not avoided:
        return count
    held = count.held.copy()
    held[avoided] = 0
    return Count(held, count.generation, int(held.sum()), count.most)


# --- where: the smallest domain that may hold it


def _runs(gang: Gang, counts: list[Count], columns: Columns) -> Iterator[_Run]:
    """Runs of rows that may hold the whole gang, the best first."""
    topology = gang.topology
    yield from _nodes(gang, counts, columns)
    for level, inner in _levels(topology):
        domains = columns.layout.domains[level]
        tries = None if topology.hard else _SOFT_TRIES
        for number in _holding(gang, counts, columns, level)[:tries]:
            yield _Run(int(domains.starts[number]), int(domains.stops[number]), inner)
        if topology.hard and level is topology.level:
            return
    yield _Run(0, len(columns), _ALL_LEVELS if topology.level is Level.LEAF else (Level.SPINE,))


def _levels(topology: Topology) -> Iterator[tuple[Level, tuple[Level, ...]]]:
    seeks_leaves = topology.hard or topology.level is Level.LEAF
    if seeks_leaves:
        yield Level.LEAF, ()
    yield Level.SPINE, (Level.LEAF,) if seeks_leaves else ()


def _nodes(gang: Gang, counts: list[Count], columns: Columns) -> Iterator[_Run]:
    """Single nodes that may hold all of it, the tightest first."""
    if any(count.most < role.replicas for count, role in zip(counts, gang.roles, strict=True)):
        return
    first, *others = (count.held >= role.replicas for count, role in zip(counts, gang.roles, strict=True))
    rows = np.flatnonzero(np.logical_and.reduce([first, *others]) if others else first)
    if not rows.size:
        return
    spare = columns.spare(_largest(gang.roles, columns.layout)[0].request, rows)
    best = rows[np.argsort(spare, kind="stable")[:_SOFT_TRIES]] if others else rows[[spare.argmin()]]
    yield from (_Run(row, row + 1) for row in best.tolist())


def _holding(gang: Gang, counts: list[Count], columns: Columns, level: Level) -> list[int]:
    """Domains that hold each role by itself, those with the least to spare first."""
    domains = columns.layout.domains[level]
    if not domains.count:
        return []
    spare = [columns.sums(count, level) - role.replicas for count, role in zip(counts, gang.roles, strict=True)]
    enough = spare[0] >= 0
    for more in spare[1:]:
        enough &= more >= 0
    if gang.topology.hard:
        enough &= domains.named
    numbers = np.flatnonzero(enough)
    if len(spare) == 1:
        return [int(numbers[spare[0][numbers].argmin()])] if numbers.size else []
    left = np.sum([more[numbers] for more in spare], axis=0)
    return [int(number) for number in numbers[np.argsort(left, kind="stable")]]


# --- how: best fit within a run of rows


def _pack(gang: Gang, counts: list[Count], columns: Columns, run: _Run, avoided: list[int]) -> tuple[Place, ...] | None:
    if len(gang.roles) == 1:
        return _pack_alike(gang.roles[0], counts[0].held, columns, run)
    part = columns.part(run.start, run.stop)
    blocked = [row - run.start for row in avoided if run.start <= row < run.stop]
    for order in _orders(gang.roles, columns.layout):
        places = _pack_in_order(order, part.copy(), run, blocked)
        if places is not None:
            return tuple(places[role.name] for role in gang.roles)
    return None


def _pack_alike(role: RoleAsk, held: Ints, columns: Columns, run: _Run) -> tuple[Place, ...] | None:
    chosen = _spread(role, held[run.start : run.stop], columns, run.start, run)
    if chosen is None:
        return None
    rows, counts = chosen
    return (_place(role, rows + columns.first, counts, columns.devices_for(role.request, rows, counts)),)


def _pack_in_order(roles: tuple[RoleAsk, ...], part: Columns, run: _Run, blocked: list[int]) -> dict[str, Place] | None:
    places = {}
    for role in roles:
        held = _without(part.count(role.pool, role.request), blocked).held
        chosen = _spread(role, held, part, 0, run)
        if chosen is None:
            return None
        rows, counts = chosen
        places[role.name] = _place(role, rows + part.first, counts, part.take(role.request, rows, counts))
    return places


def _spread(role: RoleAsk, held: Ints, columns: Columns, offset: int, run: _Run) -> tuple[Ints, Ints] | None:
    """Rows of the columns and counts for all replicas of the role; `held` counts what fits from row `offset` on."""
    if run.stop - run.start == 1:
        return (np.array([offset]), np.array([role.replicas])) if held[0] >= role.replicas else None
    if int(held.sum()) < role.replicas:
        return None
    alone = np.flatnonzero(held >= role.replicas)
    if alone.size:
        spare = columns.spare(role.request, alone + offset)
        return alone[[spare.argmin()]] + offset, np.array([role.replicas])
    whole, rest, start, stop = _few_domains(held, role.replicas, run, columns.layout)
    rows = np.flatnonzero(held[start:stop]) + start
    rows = rows[np.argsort(columns.spare(role.request, rows + offset), kind="stable")]
    filled = np.cumsum(held[rows])
    last = int(np.searchsorted(filled, rest))
    rows = rows[: last + 1]
    rows = np.concatenate((*whole, rows)) if whole else rows
    counts = held[rows]
    counts[-1] -= int(filled[last]) - rest
    return rows + offset, counts


def _few_domains(held: Ints, replicas: int, run: _Run, layout: Layout) -> tuple[list[Ints], int, int, int]:
    """Rows that are filled wholly, how many replicas that leaves, and the run of rows among which they go."""
    whole: list[Ints] = []
    start, stop = 0, len(held)
    for level in run.levels:
        domains = layout.domains[level]
        starts, stops = domains.starts - run.start, domains.stops - run.start
        inside = (starts >= start) & (starts < stop)
        starts, stops = starts[inside], stops[inside]
        if len(starts) > 1:
            sums = np.add.reduceat(held[:stop], starts)
            full, last = _fewest(sums, replicas)
            whole += [np.flatnonzero(held[starts[number] : stops[number]]) + starts[number] for number in full]
            replicas -= int(sums[full].sum())
            start, stop = int(starts[last]), int(stops[last])
    return whole, replicas, start, stop


def _fewest(sums: Ints, replicas: int) -> tuple[list[int], int]:
    """The largest domains, which are filled, and the tightest that holds what is left."""
    order = np.argsort(-sums, kind="stable")
    filled = np.cumsum(sums[order])
    count = int(np.searchsorted(filled, replicas))
    rest = replicas - (int(filled[count - 1]) if count else 0)
    others = order[count:]
    fitting = others[sums[others] >= rest]
    return order[:count].tolist(), int(fitting[sums[fitting].argmin()])


def _orders(roles: tuple[RoleAsk, ...], layout: Layout) -> Iterator[tuple[RoleAsk, ...]]:
    largest_first = _largest(roles, layout)
    yield largest_first
    if 1 < len(roles) <= _MAX_ROLES_TO_PERMUTE:
        yield from itertools.islice(itertools.permutations(largest_first), 1, None)


def _largest(roles: tuple[RoleAsk, ...], layout: Layout) -> tuple[RoleAsk, ...]:
    """The roles, those first that take the largest part of the largest node."""
    if len(roles) == 1:
        return roles
    return tuple(sorted(roles, key=lambda role: (-_part(role.request, layout), role.name)))


def _part(request: Request, layout: Layout) -> int:
    """The largest part that one replica takes of the largest node, over all resources, in billionths."""
    asked = (request.cpu_m, request.memory_bytes, request.gpus)
    return max(amount * _PARTS // most for amount, most in zip(asked, layout.largest, strict=True))
