"""Why a gang does not fit, in numbers: what is short, and how much of it there is.

Each role is judged alone first: does its pool have nodes, is one replica larger than any node, how many replicas fit
now and how many would fit with nothing running. A resource is named a blocker where it alone keeps the role from
fitting; where each resource would do but no node has them together, the number of replicas itself is the blocker. A
gang that would not even fit on empty nodes `never` fits as long as the nodes stay as they are; any other gang `waits`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from services.scheduler.domain.blocker import Blocker
from services.scheduler.domain.gang import Gang, RoleAsk
from services.scheduler.domain.nodes import Request
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import fit
from services.scheduler.domain.planning.layout import Ints
from shared.units import format_bytes


class Verdict(StrEnum):
    """Whether waiting helps."""

    FITS = "fits"
    WAITS = "waits"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to "why is my job waiting"."""

    verdict: Verdict
    summary: str
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True)
class _Resource:
    """How to read one resource of a request and of columns, and how to print an amount of it."""

    name: str
    asked: Callable[[Request], int]
    free: Callable[[Columns, Request], Ints]
    text: Callable[[int], str]


def _cores(amount_m: int) -> str:
    return f"{amount_m / 1000:g} cores" if amount_m != 1000 else "1 core"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


_RESOURCES: Final = (
    _Resource("cpu", lambda request: request.cpu_m, lambda columns, _: columns.cpu_m, _cores),
    _Resource("memory", lambda request: request.memory_bytes, lambda columns, _: columns.memory_bytes, format_bytes),
    _Resource(
        "gpu", lambda request: request.gpus, lambda columns, request: columns.free_gpus(request.gpu_model), _gpus
    ),
)


def explain(gang: Gang, columns: Columns) -> Explanation:
    """Why the gang does not start on these nodes; says so where nothing but the queue is in its way."""
    if fit(gang, columns) is not None:
        return Explanation(Verdict.FITS, "fits now and starts as soon as its turn comes")
    empty = Columns.empty(columns.layout)
    never = fit(gang, empty) is None
    blockers = _blockers(gang, columns)
    if not blockers or (never and not _blockers(gang, empty)):
        # What others hold now is not what keeps a gang away for ever that nodes without them would not take, either.
        blockers = (_together(gang, columns),)
    verdict = Verdict.NEVER if never else Verdict.WAITS
    lead = "does not fit even with nothing else running" if never else "waits for capacity"
    summary = f"{lead}: {blockers[0].detail}{_left_out(gang, columns)}"
    return Explanation(verdict, summary, blockers)


def _left_out(gang: Gang, columns: Columns) -> str:
    """Which of these nodes the gang does not get, and why."""
    reasons = (
        (gang.failed_diagnosis, "failed this job's diagnosis"),
        (gang.suspected, "failed under this job's last attempt"),
    )
    return "".join(_left_out_because(nodes, why, columns) for nodes, why in reasons) + _not_ready(gang, columns)


def _not_ready(gang: Gang, columns: Columns) -> str:
    """How many nodes of its pools get no gangs at all, by state, and how many get them last."""
    layout = columns.layout
    members = np.logical_or.reduce([layout.members(pool) for pool in gang.pools])
    states = Counter(layout.nodes[row].state for row in np.flatnonzero(members & ~layout.ready).tolist())
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    out = f"; of the {int(members.sum())} nodes there are {told}, which get no gangs" if told else ""
    suspects = sum(bool(members[row] and layout.ready[row]) for row in layout.suspects)
    return out + (f"; {suspects} of the nodes that do are suspect, and are used last" if suspects else "")


def _left_out_because(nodes: frozenset[str], why: str, columns: Columns) -> str:
    names = sorted(columns.layout.nodes[row].name for row in columns.layout.rows_named(nodes))
    return f"; {', '.join(names)} {why} and {'is' if len(names) == 1 else 'are'} left out" if names else ""


def _usable(role: RoleAsk, gang: Gang, columns: Columns) -> Ints:
    """Rows of the role's pool that may get new gangs and that this gang does not avoid."""
    usable = columns.layout.usable(role.pool).copy()
    usable[columns.layout.rows_named(gang.avoided)] = 0
    return np.flatnonzero(usable)


def _blockers(gang: Gang, columns: Columns) -> tuple[Blocker, ...]:
    return tuple(blocker for role in gang.roles for blocker in _role_blockers(role, gang, columns))


def _role_blockers(role: RoleAsk, gang: Gang, columns: Columns) -> Iterator[Blocker]:
    if role.pool not in columns.layout.pools:
        yield Blocker(role.name, "nodes", 1, 0, 0, 0, f"there is no pool {role.pool!r} for role {role.name}")
        return
    rows = _usable(role, gang, columns)
    if not rows.size:
        detail = f"pool {role.pool!r} has no node that role {role.name} may use"
        yield Blocker(role.name, "nodes", 1, 0, 0, 0, detail)
    elif _held(role, columns, rows).sum() < role.replicas:
        short = [resource for resource in _RESOURCES if _is_short(resource, role, columns, rows)]
        yield from (_resource_blocker(resource, role, columns, rows) for resource in short)
        if not short:
            yield _replica_blocker(role, columns, rows)


def _held(role: RoleAsk, columns: Columns, rows: Ints) -> Ints:
    """How many of its replicas each of the rows holds."""
    return columns.holds(role.pool, role.request)[rows]


def _free(resource: _Resource, role: RoleAsk, columns: Columns, rows: Ints) -> Ints:
    return np.maximum(resource.free(columns, role.request)[rows], 0)


def _is_short(resource: _Resource, role: RoleAsk, columns: Columns, rows: Ints) -> bool:
    asked = resource.asked(role.request)
    return asked > 0 and int((_free(resource, role, columns, rows) // asked).sum()) < role.replicas


def _resource_blocker(resource: _Resource, role: RoleAsk, columns: Columns, rows: Ints) -> Blocker:
    asked = resource.asked(role.request)
    amounts = _free(resource, role, columns, rows)
    free, most = int(amounts.sum()), int(amounts.max())
    total = int(_free(resource, role, Columns.empty(columns.layout), rows).sum())
    model = f" {role.request.gpu_model}" if resource.name == "gpu" and role.request.gpu_model else ""
    detail = (
        f"role {role.name} needs {role.replicas} x {resource.text(asked)}{model} in pool {role.pool!r}; "
        f"{resource.text(free)} of {resource.text(total)} are free, at most {resource.text(most)} on one node"
    )
    return Blocker(role.name, resource.name, role.replicas * asked, free, total, most, detail)


def _replica_blocker(role: RoleAsk, columns: Columns, rows: Ints) -> Blocker:
    counts = _held(role, columns, rows)
    fitting, most = int(counts.sum()), int(counts.max())
    total = int(_held(role, Columns.empty(columns.layout), rows).sum())
    detail = (
        f"role {role.name} needs {role.replicas} replicas in pool {role.pool!r}; there is enough of each resource, "
        f"but no node has it together: {fitting} of {total} fit now, at most {most} on one node"
    )
    return Blocker(role.name, "replicas", role.replicas, fitting, total, most, detail)


def _together(gang: Gang, columns: Columns) -> Blocker:
    """Each role would fit alone, but not all of them."""
    names = ", ".join(role.name for role in gang.roles)
    replicas = sum(role.replicas for role in gang.roles)
    fitting = min(int(_held(role, columns, _usable(role, gang, columns)).sum()) for role in gang.roles)
    detail = f"each of the roles {names} fits alone, but their {replicas} replicas do not fit together"
    if gang.topology.hard:
        level = gang.topology.level
        detail = f"the {replicas} replicas would fit in the pool, but not in one {level}, which the job asks for"
        if not columns.layout.domains[level].named.any():
            detail += f"; no node has the label '{level}', so each counts alone"
    return Blocker(names, "replicas", replicas, fitting, fitting, fitting, detail)
