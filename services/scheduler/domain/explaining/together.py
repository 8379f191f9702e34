"""What keeps a gang away of which every role would fit alone: one domain for all of it, or what its roles share.

A gang that asks for one leaf or spine is told how many of its replicas the best of those domains would take. For roles
of one pool the sums are compared first: where they ask for more of a resource than the pool has, that is the answer.
Else it is how many replicas find a place when the roles are packed one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from services.scheduler.domain.blocker import Blocker
from services.scheduler.domain.explaining.amounts import RESOURCES, Resource, free_of, held_of, usable_rows
from services.scheduler.domain.gang import Gang, RoleAsk, Topology
from services.scheduler.domain.nodes import Request
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import fit, take
from services.scheduler.domain.planning.layout import Ints

_ANY: Final = Request(0, 0)


def together_blocker(gang: Gang, columns: Columns, *, never: bool) -> Blocker:
    """The one reason why the whole does not fit where each role alone does; `never`: on empty nodes neither."""
    empty = Columns.empty(columns.layout)
    if gang.topology.hard and fit(replace(gang, topology=Topology()), empty) is not None:
        return _domain_blocker(gang, columns)
    shared = _shared_blockers(gang, columns, empty if never else columns)
    return next(shared, None) or _packing_blocker(gang, columns)


def _replicas(gang: Gang) -> int:
    return sum(role.replicas for role in gang.roles)


def _names(roles: tuple[RoleAsk, ...]) -> str:
    return ", ".join(role.name for role in roles)


# --- one domain


def _domain_blocker(gang: Gang, columns: Columns) -> Blocker:
    level, needed = gang.topology.level, _replicas(gang)
    now, most = _best_domain(gang, columns), _best_domain(gang, Columns.empty(columns.layout))
    detail = f"the {needed} replicas would fit in the pool, but not in one {level}, which the job asks for"
    if not columns.layout.domains[level].named.any():
        detail += f"; no node has the label '{level}', so each counts alone"
    elif now < needed:
        detail += f"; the best has room for {now} of them now, and for {most} with nothing else running"
    return Blocker(_names(gang.roles), "replicas", needed, now, most, now, detail)


def _best_domain(gang: Gang, columns: Columns) -> int:
    """How many replicas the best domain takes, each role looked at alone; a node without the label is one, too."""
    domains = columns.layout.domains[gang.topology.level]
    by_domain, by_row = np.zeros(domains.count, dtype=np.int64), np.zeros(len(columns), dtype=np.int64)
    for role in gang.roles:
        held = np.zeros(len(columns), dtype=np.int64)
        rows = usable_rows(role, gang, columns)
        held[rows] = held_of(role, columns, rows)
        by_row += np.minimum(held, role.replicas)
        if domains.count:
            by_domain += np.minimum(np.add.reduceat(held, domains.starts), role.replicas)
    return int(max(by_domain[domains.named].max(initial=0), by_row.max(initial=0)))


# --- one pool


def _shared_blockers(gang: Gang, columns: Columns, judged: Columns) -> Iterator[Blocker]:
    """Resources of which the roles in one pool ask for more than there is of it in the columns that are judged."""
    for pool in gang.pools:
        roles = tuple(role for role in gang.roles if role.pool == pool)
        rows = usable_rows(roles[0], gang, columns)
        for resource in RESOURCES:
            asked = sum(role.replicas * resource.asked(role.request) for role in roles)
            if asked > int(free_of(resource, _ANY, judged, rows).sum()):
                yield _shared_blocker(roles, resource, asked, columns, rows)


def _shared_blocker(
    roles: tuple[RoleAsk, ...], resource: Resource, asked: int, columns: Columns, rows: Ints
) -> Blocker:
    amounts = free_of(resource, _ANY, columns, rows)
    free, total = int(amounts.sum()), int(free_of(resource, _ANY, Columns.empty(columns.layout), rows).sum())
    detail = (
        f"each of the roles {_names(roles)} fits alone, but together they need {resource.text(asked)} in pool "
        f"{roles[0].pool!r}; {resource.text(free)} of {resource.text(total)} are free"
    )
    return Blocker(_names(roles), resource.name, asked, free, total, int(amounts.max()), detail)


def _packing_blocker(gang: Gang, columns: Columns) -> Blocker:
    """There is enough of each resource, but not in pieces that fit."""
    needed, fitting = _replicas(gang), _packed(gang, columns)
    total = max(fitting, _packed(gang, Columns.empty(columns.layout)))
    detail = (
        f"each of the roles {_names(gang.roles)} fits alone, but their {needed} replicas do not fit together: "
        f"there is a place for {fitting} of them now, and for {total} with nothing else running"
    )
    return Blocker(_names(gang.roles), "replicas", needed, fitting, total, fitting, detail)


def _packed(gang: Gang, columns: Columns) -> int:
    """How many replicas have a place if one role is packed after the other; fewer than all, since all do not fit."""
    left, count = columns.copy(), 0
    for role in gang.roles:
        replicas = min(role.replicas, int(held_of(role, left, usable_rows(role, gang, left)).sum()))
        alone = replace(gang, roles=(replace(role, replicas=replicas),), topology=Topology())
        places = fit(alone, left) if replicas else None
        if places is not None:
            take(places, left)
            count += replicas
    return count
