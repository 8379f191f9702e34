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
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.layout import Bits, Domains, Ints, Layout

_MAX_ROLES_TO_PERMUTE: Final = 4
# Gangs of several roles may not fit where each role would by itself; so many of the tightest domains are tried.
_SOFT_TRIES: Final = 4
_PARTS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where the replicas of one role go: `counts[i]` of them on row `rows[i]` of the layout, with those devices."""

    role: RoleAsk
    rows: Ints
    counts: Ints
    devices: Bits


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of rows, and the domains within it that are worth to be kept together."""

    start: int
    stop: int
    levels: tuple[Domains, ...] = ()


def fit(gang: Gang, columns: Columns) -> tuple[Place, ...] | None:
    """A place for the whole gang, roles in the gang's own order, or None; the columns stay as they are."""
    avoided = columns.layout.rows_named(gang.avoided)
    held = [_without(columns.holds(role.pool, role.request), avoided) for role in gang.roles]
    if any(counts.sum() < role.replicas for counts, role in zip(held, gang.roles, strict=True)):
        return None
    for run in _runs(gang, held, columns):
        places = _pack(gang, held, columns, run, avoided)
        if places is not None:
            return places
    return None


def take(places: Sequence[Place], columns: Columns) -> None:
    """Take what these places hold out of the columns."""
    for place in places:
        columns.take(place.role.request, place.rows, place.counts)


def _without(held: Ints, avoided: list[int]) -> Ints:
    if not avoided:
        return held
    left = held.copy()
    left[avoided] = 0
    return left


# --- where: the smallest domain that may hold it


def _runs(gang: Gang, held: list[Ints], columns: Columns) -> Iterator[_Run]:
    """Runs of rows that may hold the whole gang, the best first."""
    layout = columns.layout
    yield from _nodes(gang, held, columns)
    for level, domains, inner in _levels(gang.topology, layout):
        tries = None if gang.topology.hard else _SOFT_TRIES
        for number in _holding(gang, held, domains, named=gang.topology.hard)[:tries]:
            yield _Run(int(domains.starts[number]), int(domains.stops[number]), inner)
        if gang.topology.hard and level is gang.topology.level:
            return
    yield _Run(0, len(layout), _kept_together(gang.topology, layout))


def _levels(topology: Topology, layout: Layout) -> Iterator[tuple[Level, Domains, tuple[Domains, ...]]]:
    seeks_leaves = topology.hard or topology.level is Level.LEAF
    if seeks_leaves:
        yield Level.LEAF, layout.leaves, ()
    yield Level.SPINE, layout.spines, (layout.leaves,) if seeks_leaves else ()


def _kept_together(topology: Topology, layout: Layout) -> tuple[Domains, ...]:
    return (layout.spines, layout.leaves) if topology.level is Level.LEAF else (layout.spines,)


def _nodes(gang: Gang, held: list[Ints], columns: Columns) -> Iterator[_Run]:
    """Single nodes that may hold all of it, the tightest first."""
    enough = np.logical_and.reduce([counts >= role.replicas for counts, role in zip(held, gang.roles, strict=True)])
    rows = np.flatnonzero(enough)
    if not rows.size:
        return
    spare = columns.spare(_largest(gang.roles, columns.layout)[0].request, rows)
    if len(gang.roles) == 1:
        best = [int(rows[spare.argmin()])]
    else:
        best = rows[np.argsort(spare, kind="stable")[:_SOFT_TRIES]].tolist()
    yield from (_Run(row, row + 1) for row in best)


def _holding(gang: Gang, held: list[Ints], domains: Domains, *, named: bool) -> list[int]:
    """Domains that hold each role by itself, those with the least to spare first."""
    if not domains.count:
        return []
    enough = domains.named.copy() if named else np.ones(domains.count, dtype=np.bool_)
    left = np.zeros(domains.count, dtype=np.int64)
    for counts, role in zip(held, gang.roles, strict=True):
        more = np.add.reduceat(counts, domains.starts) - role.replicas
        enough &= more >= 0
        left += more
    numbers = np.flatnonzero(enough)
    return [int(number) for number in numbers[np.argsort(left[numbers], kind="stable")]]


# --- how: best fit within a run of rows


def _pack(gang: Gang, held: list[Ints], columns: Columns, run: _Run, avoided: list[int]) -> tuple[Place, ...] | None:
    if len(gang.roles) == 1:
        return _pack_alike(gang.roles[0], held[0], columns, run)
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
    return (Place(role, rows + columns.first, counts, columns.devices_for(role.request, rows, counts)),)


def _pack_in_order(roles: tuple[RoleAsk, ...], part: Columns, run: _Run, blocked: list[int]) -> dict[str, Place] | None:
    places = {}
    for role in roles:
        chosen = _spread(role, _without(part.holds(role.pool, role.request), blocked), part, 0, run)
        if chosen is None:
            return None
        rows, counts = chosen
        places[role.name] = Place(role, rows + part.first, counts, part.take(role.request, rows, counts))
    return places


def _spread(role: RoleAsk, held: Ints, columns: Columns, offset: int, run: _Run) -> tuple[Ints, Ints] | None:
    """Rows of the columns and counts for all replicas of the role; `held` counts what fits from row `offset` on."""
    if int(held.sum()) < role.replicas:
        return None
    alone = np.flatnonzero(held >= role.replicas)
    if alone.size:
        spare = columns.spare(role.request, alone + offset)
        return alone[[spare.argmin()]] + offset, np.array([role.replicas])
    whole, rest, start, stop = _few_domains(held, role.replicas, run)
    rows = np.flatnonzero(held[start:stop]) + start
    rows = rows[np.argsort(columns.spare(role.request, rows + offset), kind="stable")]
    filled = np.cumsum(held[rows])
    last = int(np.searchsorted(filled, rest))
    rows = np.concatenate((*whole, rows[: last + 1]))
    counts = held[rows]
    counts[-1] -= int(filled[last]) - rest
    return rows + offset, counts


def _few_domains(held: Ints, replicas: int, run: _Run) -> tuple[list[Ints], int, int, int]:
    """Rows that are filled wholly, how many replicas that leaves, and the run of rows among which they go."""
    whole: list[Ints] = []
    start, stop = 0, len(held)
    for level in run.levels:
        starts, stops = level.starts - run.start, level.stops - run.start
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
    return tuple(sorted(roles, key=lambda role: (-_part(role.request, layout), role.name)))


def _part(request: Request, layout: Layout) -> int:
    """The largest part that one replica takes of the largest node, over all resources, in billionths."""
    cpu_m, memory_bytes, gpus = layout.largest
    return max(
        request.cpu_m * _PARTS // cpu_m, request.memory_bytes * _PARTS // memory_bytes, request.gpus * _PARTS // gpus
    )
